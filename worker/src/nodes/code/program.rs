//! Builds the program for a dify-sandbox: the user's code and the code that calls it. The inputs are embedded as
//! base64, so that no value can be read as code.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidemill_common::nodes::code::{CodeLanguage, filled};
use tidemill_sandbox::Program;

/// Returns the service's name of the language, and the program.
pub(super) fn program(program: Program<'_>) -> (&'static str, String) {
    let inputs = STANDARD.encode(program.inputs);
    // Dify fills a single template, so placeholders in the user's code are replaced too.
    let code = filled(program.code, || inputs.clone());
    match program.language {
        CodeLanguage::Python => ("python3", format!("{code}\n{}", python(&inputs))),
        CodeLanguage::JavaScript => ("nodejs", format!("{code}\n{}", javascript(&inputs))),
    }
}

fn python(inputs: &str) -> String {
    [
        "import json",
        "from base64 import b64decode",
        &format!("inputs_obj = json.loads(b64decode('{inputs}').decode('utf-8'))"),
        "output_obj = main(**inputs_obj)",
        "print('<<RESULT>>' + json.dumps(output_obj, indent=4) + '<<RESULT>>')",
        "",
    ]
    .join("\n")
}

fn javascript(inputs: &str) -> String {
    [
        &format!("var inputs_obj = JSON.parse(Buffer.from('{inputs}', 'base64').toString('utf-8'))"),
        "var output_obj = main(inputs_obj)",
        "console.log('<<RESULT>>' + JSON.stringify(output_obj) + '<<RESULT>>')",
        "",
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_comes_first_and_the_inputs_are_encoded() {
        let inputs = r#"{"a":"'\n"}"#;
        let of = |language, code| {
            program(Program { language, code, inputs, owner: tidemill_sandbox::Owner::default() })
        };
        let (language, text) = of(CodeLanguage::Python, "def main(a): return {'r': '{{inputs}}'}");
        let encoded = STANDARD.encode(inputs);
        assert_eq!(language, "python3");
        assert!(
            text.starts_with(&format!("def main(a): return {{'r': '{encoded}'}}\nimport json\n")),
            "{text}"
        );
        assert!(text.contains(&format!("b64decode('{encoded}')")), "{text}");
        let (language, text) = of(CodeLanguage::JavaScript, "const main = () => ({})");
        assert_eq!(language, "nodejs");
        assert!(text.contains(&format!("Buffer.from('{encoded}', 'base64')")), "{text}");
    }
}
