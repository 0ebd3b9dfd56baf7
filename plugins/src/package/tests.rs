//! Whole packages, from bytes to what is known of them.

use std::io::{Cursor, Write};

use super::*;

const MANIFEST_TEXT: &str = "\
version: 0.1.0
type: plugin
author: someone
name: sample
label: {en_US: Sample, de_DE: Beispiel}
description: a sample
created_at: 2025-01-01T00:00:00Z
resource:
  memory: 1048576
  permission:
    tool: {enabled: true}
    model: {enabled: true, llm: true, rerank: false}
    storage: {enabled: true, size: 2048}
plugins:
  tools: [provider/sample.yaml]
meta:
  version: 0.0.1
  arch: [amd64, arm64]
  minimum_dify_version: 1.0.0
  runner: {language: python, version: '3.11', entrypoint: main}
unknown: {is: accepted}
";
const PROVIDER: &str = "\
identity: {author: someone, name: sample, label: {en_US: Sample}, icon: icon.svg}
credentials_for_provider:
  key: {type: secret-input, required: true, label: {en_US: Key}}
tools: [tools/echo.yaml]
extra: {python: {source: provider/sample.py}}
";
const TOOL: &str = "\
identity: {author: someone, name: echo, label: {en_US: Echo}}
description: {human: {en_US: Says it again}, llm: says it again}
parameters:
- {name: text, type: string, form: llm, required: true, label: {en_US: Text}}
- {name: often, type: number, form: form, default: 1, min: 1, max: 3}
extra: {python: {source: tools/echo.py}}
";

/// A package with changed files.
fn package(changes: &[(&str, &str)]) -> Package {
    let mut files = vec![
        ("manifest.yaml", MANIFEST_TEXT),
        ("main.py", ""),
        ("provider/sample.yaml", PROVIDER),
        ("provider/sample.py", ""),
        ("tools/echo.yaml", TOOL),
        ("tools/echo.py", ""),
        ("requirements.txt", "dify_plugin>=0.4.0,<0.5.0\n"),
    ];
    for (name, text) in changes {
        files.retain(|(known, _)| known != name);
        files.push((name, text));
    }
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    Package::read(&writer.finish().unwrap().into_inner(), &PackageLimits::default(), None).unwrap()
}

fn problems(package: &Package) -> String {
    package.problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn a_package_is_understood() {
    let package = package(&[]);
    assert_eq!(problems(&package), "");
    assert_eq!(package.id(), "someone/sample:0.1.0");
    assert_eq!(package.manifest.label, "Sample");
    assert_eq!(package.manifest.created_at, "2025-01-01T00:00:00Z");
    assert_eq!(
        package.manifest.permissions.in_words(),
        ["may call models: llm", "may call other tools", "may store 2048 bytes"]
    );
    let [(provider, tool)] = &package.tools_named("echo")[..] else { panic!("one tool") };
    assert_eq!(provider.credentials[0].kind, Kind::Secret);
    assert_eq!((tool.parameters[0].kind, tool.parameters[0].form), (Kind::Text, Form::Llm));
    assert_eq!((tool.parameters[1].min, tool.parameters[1].max), (Some(1.0), Some(3.0)));
    assert_eq!(package.tools_named("sample/echo").len(), 1);
    assert_eq!(package.signature, Signature::Unchecked);
    assert_eq!(package.hash.len(), 64);
}

#[test]
fn datasources_are_read_and_checked() {
    let provider = "\
identity: {author: someone, name: drive, label: {en_US: Drive}}
provider_type: online_drive
credentials_schema:
- {name: token, type: secret-input, required: true}
oauth_schema: {client_schema: []}
datasources: [datasources/files.yaml]
extra: {python: {source: main.py}}
";
    let datasource =
        "identity: {name: files, label: {en_US: Files}}\nparameters:\nextra: {python: {source: main.py}}\n";
    let manifest =
        MANIFEST_TEXT.replace("  tools: [provider/sample.yaml]", "  datasources: [provider/drive.yaml]");
    let files = |provider: &str| {
        package(&[
            ("manifest.yaml", manifest.as_str()),
            ("provider/drive.yaml", provider),
            ("datasources/files.yaml", datasource),
        ])
    };
    let read = files(provider);
    assert_eq!(problems(&read), "");
    let drive = &read.providers.datasources[0];
    assert_eq!((drive.source_kind.as_deref(), drive.items[0].name.as_str()), (Some("online_drive"), "files"));
    assert_eq!(read.record(1).datasources[0].tools, ["files"]);
    assert!(read.has_parts_that_run());
    let sentences = read.parts_that_do_not_run();
    assert!(
        sentences[0].contains("(OAuth) of drive does not run here: give its credentials"),
        "{sentences:?}"
    );
    let shown = problems(&files(&provider.replace("online_drive", "tape").replace("extra:", "more:")));
    let expected = "provider/drive.yaml:2: error: the provider_type \"tape\" is not known";
    assert!(shown.contains(expected) && shown.contains("extra.python.source is missing"), "{shown}");
}

#[test]
fn what_does_not_run_is_said_by_name() {
    let manifest = MANIFEST_TEXT.replace(
        "  tools: [provider/sample.yaml]",
        "  triggers: [provider/t.yaml]\n  endpoints: [group/g.yaml]",
    );
    let read = package(&[
        ("manifest.yaml", &manifest),
        ("provider/t.yaml", "identity: {name: t}\n"),
        ("group/g.yaml", "endpoints: []\n"),
    ]);
    assert!(!read.has_parts_that_run());
    let sentences = read.parts_that_do_not_run().join("\n");
    assert!(
        sentences.contains("Its triggers do not run here")
            && sentences.contains("Its endpoints do not run here")
    );
}

#[test]
fn problems_have_file_line_and_place() {
    let tool = TOOL.replace("type: number", "type: numeral").replace("tools/echo.py", "tools/other.py");
    let shown = problems(&package(&[("tools/echo.yaml", &tool)]));
    let expected = "tools/echo.yaml:5: error: the type \"numeral\" is not known (at parameters[1])";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("the package has no file \"tools/other.py\" (at extra.python.source)"), "{shown}");

    let shown = problems(&package(&[("provider/sample.yaml", "identity: [")]));
    assert!(shown.contains("provider/sample.yaml"), "{shown}");
    let shown = problems(&package(&[("manifest.yaml", "name: A B\n")]));
    for expected in ["name may have", "version is missing", "resource is missing", "plugins is missing"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

/// A package of models: the provider, and one model.
fn models(provider: &str, model: &str) -> Package {
    let manifest = MANIFEST_TEXT.replace("  tools: [provider/sample.yaml]", "  models: [provider/m.yaml]");
    package(&[
        ("manifest.yaml", &manifest),
        ("provider/m.yaml", provider),
        ("provider/m.py", ""),
        ("models/llm/llm.py", ""),
        ("models/llm/one.yaml", model),
        ("models/llm/_position.yaml", "- one"),
    ])
}

const MODELS: &str = "\
provider: own
label: {en_US: Own}
supported_model_types: [llm, text-embedding]
configurate_methods: [predefined-model, customizable-model]
provider_credential_schema:
  credential_form_schemas:
  - {variable: key, type: secret-input, label: {en_US: Key}}
  - {variable: region, type: select, required: false, default: eu, options: [{value: eu, label: {en_US: Europe}}]}
model_credential_schema:
  model: {label: {en_US: Name}}
  credential_form_schemas:
  - variable: voice
    type: text-input
    show_on: [{variable: __model_type, value: tts}]
models:
  llm: {position: models/llm/_position.yaml, predefined: ['models/llm/*.yaml']}
extra: {python: {provider_source: provider/m.py, model_sources: [models/llm/llm.py]}}
";
const MODEL: &str = "\
model: one
label: {en_US: One}
model_type: llm
features: [vision]
model_properties: {mode: chat, context_size: 8192}
parameter_rules:
- {name: temperature, use_template: temperature}
- {name: top_k, type: int, required: true}
pricing: {input: '0.1', output: '0.2', unit: '0.001', currency: USD}
";

#[test]
fn a_provider_of_models_is_understood() {
    let package = models(MODELS, MODEL);
    assert_eq!(problems(&package), "");
    let [provider] = &package.providers.models[..] else { panic!("one provider") };
    assert_eq!(provider.kinds, [ModelKind::Llm, ModelKind::TextEmbedding]);
    assert!(provider.is_predefined && provider.is_customizable);
    let needed: Vec<_> = provider.credentials.iter().map(|field| (&*field.name, field.required)).collect();
    assert_eq!(needed, [("key", true), ("region", false)], "a field that does not say it is required");
    assert_eq!(provider.model_credentials[0].show_on, [("__model_type".to_owned(), "tts".to_owned())]);
    let [model] = &provider.models[..] else { panic!("one model") };
    assert_eq!((model.name.as_str(), model.facts.context_size), ("one", Some(8192)));
    assert_eq!(model.rules[1], Rule { name: "top_k".into(), kind: "int".into(), is_required: true });
    let record = package.record(1);
    assert_eq!(record.models[0].described["llm"], ["one"]);
    assert_eq!((record.models[0].is_customizable, record.others.len()), (true, 0));
}

#[test]
fn problems_of_models_have_file_line_and_place() {
    let provider = MODELS.replace("llm, text-embedding", "llm, smell").replace("provider/m.py", "m.py");
    let provider = provider.replace("predefined-model, ", "other-model, ");
    let model = MODEL.replace("8192", "many").replace("'0.1'", "free").replace("type: int", "type: whole");
    let shown = problems(&models(&provider, &model));
    for expected in [
        "provider/m.yaml:3: error: the type of models \"smell\" is not known (at supported_model_types[1])",
        "the method \"other-model\" is not known",
        "the package has no file \"m.py\" (at extra.python.provider_source)",
        "models/llm/one.yaml:5: error: this must be a whole number (at model_properties.context_size)",
        "this must be a decimal number (at pricing.input)",
        "the type \"whole\" is not known: float, int, string, boolean or text (at parameter_rules[1])",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let shown = problems(&models(MODELS, &MODEL.replace("model_type: llm", "model_type: smell")));
    assert!(shown.contains("(at model_type)"), "{shown}");
    let shown = problems(&models("provider: own", MODEL));
    for expected in ["supported_model_types is missing", "configurate_methods is missing", "extra is missing"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..9 {
        let items = vec![format!("*a{}", at - 1); 10].join(", ");
        bomb.push_str(&format!("a{at}: &a{at} [{items}]\n"));
    }
    let shown = problems(&package(&[("tools/echo.yaml", &bomb)]));
    assert!(shown.contains("once its aliases are expanded"), "{shown}");
}

#[test]
fn a_file_that_is_named_often_is_read_once() {
    let names = vec!["tools/echo.yaml"; 5000].join(", ");
    let package = package(&[("provider/sample.yaml", &PROVIDER.replace("tools/echo.yaml", &names))]);
    assert_eq!(package.providers.tools[0].tools.len(), 1);
    assert_eq!(problems(&package), "");
}

#[test]
fn many_hostile_patterns_end() {
    let pattern = format!("'{}b'", "*a".repeat(150));
    let names = vec![pattern; 3000].join(", ");
    let package = package(&[("provider/sample.yaml", &PROVIDER.replace("tools/echo.yaml", &names))]);
    assert!(problems(&package).contains("more than 64"), "{}", problems(&package));
}

#[test]
fn all_files_together_have_a_budget() {
    // Each of them is small, and has 90 000 values after its aliases are expanded.
    let list = |item: &str, count: usize| vec![item; count].join(",");
    let bomb =
        format!("{TOOL}a: &a [{}]\nb: &b [{}]\nc: [{}]\n", list("x", 300), list("*a", 30), list("*b", 9));
    let names: Vec<String> = (0..40).map(|at| format!("tools/t{at}.yaml")).collect();
    let provider = PROVIDER.replace("tools/echo.yaml", &names.join(","));
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), bomb.as_str())).collect();
    files.push(("provider/sample.yaml", &provider));
    let shown = problems(&package(&files));
    assert!(shown.contains("(yaml_values_all_max)"), "{shown}");
}

#[test]
fn the_patterns_of_all_lists_together_have_a_budget() {
    let deep = format!("models/{}", "a".repeat(200));
    let names: Vec<String> = (0..200).map(|at| format!("{deep}{at}")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let pattern = format!("'models/{}b'", "*a".repeat(90));
    let list = vec![pattern; 60].join(",");
    let kinds: String = (0..50).map(|at| format!("  k{at}: {{predefined: [{list}]}}\n")).collect();
    let models = format!("provider: m\nmodels:\n{kinds}");
    files.push(("models/m.yaml", &models));
    let manifest = MANIFEST_TEXT.replace("  tools: [provider/sample.yaml]", "  models: [models/m.yaml]");
    files.push(("manifest.yaml", &manifest));
    let shown = problems(&package(&files));
    assert!(shown.contains("(pattern_steps_max)"), "{shown}");
}

#[test]
fn a_signature_is_checked_with_a_key() {
    let key =
        PublicKey::from_pem("-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\n").unwrap();
    let files = package(&[]).files;
    assert_eq!(signature::check(&files, None, Some(&key)), Signature::Missing);
    let comment = br#"{"signature": "AAAA", "time": 1}"#.to_vec();
    let archive = open::Archive { order: vec!["main.py".into()], comment };
    assert_eq!(signature::check(&files, Some(&archive), Some(&key)), Signature::Wrong);
    assert!(PublicKey::from_pem("-----BEGIN PUBLIC KEY-----").is_err());
}

proptest::proptest! {
    #[test]
    fn any_text_as_a_manifest_is_read_without_a_panic(text in "[a-z:\\[\\]{}*&!'\" \n-]{0,200}") {
        let _ = package(&[("manifest.yaml", &text), ("tools/echo.yaml", &text)]);
    }
}

#[test]
fn a_folder_that_was_packed_is_the_same_plugin() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins/many"));
    let limits = PackageLimits::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let whole = runtime.block_on(Package::open(folder, &limits, None)).unwrap();
    let packed = Package::read(&whole.files.packed().unwrap(), &limits, None).unwrap();
    assert_eq!((packed.hash, packed.manifest.name), (whole.hash.clone(), whole.manifest.name.clone()));
}
