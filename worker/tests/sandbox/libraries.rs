//! Tests of packages: the environment that the settings declare, and the libraries that code uses most.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidemill_common::nodes::code::{PythonConfig, PythonTable};
use tidemill_sandbox::environment::{self, install};

use super::network::{networked, server};
use super::*;

/// Settings with these packages, whose environments and lock are in a folder that every user may read.
fn declaring(folder: &Path, packages: &[&str]) -> CodeConfig {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let python = PythonTable {
        packages: packages.iter().map(ToString::to_string).collect(),
        environments: folder.join("environments").display().to_string(),
        folder: folder.into(),
        ..PythonTable::default()
    };
    CodeConfig { python: PythonConfig(python), ..CodeConfig::default() }
}

#[tokio::test]
async fn code_does_not_run_before_its_packages_are_installed() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox(&declaring(folder.path(), &["tide-greeting"]));
    let error = python(&sandbox, "def main(): return {}").await.unwrap_err();
    for said in
        [error, sandbox.ready().await.unwrap_err().0, sandbox.seems_able(CodeLanguage::Python).unwrap_err()]
    {
        assert!(
            said.contains("tidemill-code.lock") && said.contains("run `tidemill code install`"),
            "{said}"
        );
    }
    assert_eq!(sandbox.seems_able(CodeLanguage::JavaScript), Ok(()));
}

#[tokio::test]
async fn a_missing_module_is_told_with_its_package() {
    let sandbox = sandbox(&CodeConfig::default());
    let error = fails(&sandbox, "import tide_nothing.at_all\ndef main(): return {}").await;
    assert!(
        error.contains("ModuleNotFoundError: No module named 'tide_nothing'\nThe module tide_nothing is not"),
        "{error}"
    );
    assert!(
        error.contains("add \"tide-nothing\" to code.python.packages and run `tidemill code install`"),
        "{error}"
    );
}

/// Programs that use a library each, and what they return.
const USES: [(&str, &str); 6] = [
    (
        "import numpy as np\ndef main(): return {'r': round(float((np.ones((50, 50)) @ np.ones((50, 50))).sum())), 's': np.linalg.svd(np.eye(9))[1].size}",
        r#"{"r": 125000, "s": 9}"#,
    ),
    (
        "import pandas as pd\ndef main():\n    pd.DataFrame({'a': [1, 2, 3], 'b': list('xyx')}).to_csv('t.csv')\n\
         \x20   return {'r': {k: int(v) for k, v in pd.read_csv('t.csv').groupby('b').a.sum().items()}}",
        r#"{"r": {"x": 4, "y": 2}}"#,
    ),
    (
        "import jinja2\ndef main(): return {'r': jinja2.Template('{% for i in x %}{{i}},{% endfor %}').render(x=[1, 2])}",
        r#"{"r": "1,2,"}"#,
    ),
    (
        "from lxml import html\ndef main(): return {'r': html.fromstring('<p>a<b>c</b></p>').xpath('//b/text()')}",
        r#"{"r": ["c"]}"#,
    ),
    ("import requests\ndef main(): return {'r': requests.get('ADDRESS/a').text}", r#"{"r": "it is /a"}"#),
    (
        "import asyncio, httpx\nasync def both():\n    async with httpx.AsyncClient() as client:\n\
         \x20       found = await asyncio.gather(client.get('ADDRESS/b'), client.get('ADDRESS/c'))\n\
         \x20   return [one.text for one in found] + [httpx.get('ADDRESS/d').text]\ndef main(): return {'r': asyncio.run(both())}",
        r#"{"r": ["it is /b", "it is /c", "it is /d"]}"#,
    ),
];

#[tokio::test]
#[ignore = "needs an index of packages: `make deep` runs it"]
async fn the_libraries_that_code_uses_most_work() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = declaring(folder.path(), &["numpy", "pandas", "requests", "httpx", "jinja2", "lxml"]);
    let how = install::How::default();
    let installed = install::install(&config, how, &|text| eprintln!("{text}")).await.unwrap();
    assert!(environment::provides(&config.python, "certifi"), "{:?}", installed.environment);
    for preload in [vec![], vec!["pandas".to_owned(), "requests".to_owned()]] {
        config.python.preload = preload;
        let sandbox = networked(&config, &["127.0.0.1"]);
        let address = format!("http://{}", server().await);
        for (code, wanted) in USES {
            let wanted: Json = serde_json::from_str(wanted).unwrap();
            assert_eq!(python(&sandbox, &code.replace("ADDRESS", &address)).await, Ok(wanted), "{code}");
        }
        // What the libraries can do, the sandbox still refuses.
        let refused = networked(&config, &[]);
        let error = fails(
            &refused,
            &format!("import requests\ndef main(): requests.get('{address}/').raise_for_status()"),
        )
        .await;
        assert!(error.contains("403 Client Error: 127.0.0.1 is a loopback address"), "{error}");
        for attempt in [
            format!(
                "import requests\ndef main():\n    s = requests.Session()\n    s.trust_env = False\n    s.get('{address}/')"
            ),
            "import urllib3\ndef main(): urllib3.PoolManager().request('GET', 'http://1.1.1.1/')".into(),
            "import numpy\ndef main(): numpy.fromfile('/etc/passwd', dtype=numpy.uint8)".into(),
            "import pandas\ndef main(): pandas.read_csv('/proc/1/environ')".into(),
            "from lxml import etree\ndef main(): etree.parse('/etc/passwd')".into(),
            "import numpy\ndef main(): open(numpy.__file__, 'a')".into(),
        ] {
            fails(&sandbox, &attempt).await;
        }
    }
}
