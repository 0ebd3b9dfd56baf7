//! What the tests share: installed plugins and short ways to invoke their tools.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::http::Http;
use tidemill_plugins::install::{Installed, install};
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::Package;
use tidemill_plugins::process::pool::Plugins;
use tidemill_plugins::process::{Answers, MemoryStorage, Offered, Origin};
use tidemill_plugins::settings::Settings;
use tidemill_plugins::tool::message::Message;
use tidemill_plugins::tool::{Call, Results, ToolError};
use tidemill_sandbox::helper::Host;

/// Installed plugins.
pub(crate) struct Lab {
    pub(crate) settings: Settings,
    pub(crate) many: Arc<Installed>,
    pub(crate) bold: Arc<Installed>,
    pub(crate) asks: Arc<Installed>,
}

/// A host of plugins, and one plugin on it.
pub(crate) struct Bench {
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) installed: Arc<Installed>,
    pub(crate) credentials: Json,
    pub(crate) owner: String,
    pub(crate) offered: Offered,
    pub(crate) answers: Arc<dyn Answers>,
}

impl Lab {
    #[allow(clippy::print_stdout, reason = "the results of tests")]
    pub(crate) async fn new(cache: PathBuf) -> Self {
        let mut settings = Settings::new(cache);
        settings.wheels = std::env::var_os("PLUGINS_WHEELS").map(PathBuf::from);
        if let Ok(python) = std::env::var("PLUGINS_PYTHON") {
            settings.pythons = vec![python];
        }
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/plugins");
        let ready = async |name: &str| {
            let package = Package::open(&folder.join(name), &PackageLimits::default(), None)
                .await
                .expect("it is a package");
            assert!(package.problems.is_empty(), "{:?}", package.problems);
            let say = |text: String| println!("{text}");
            Arc::new(install(Arc::new(package), &settings, &say).await.expect("it can be installed"))
        };
        let (many, bold, asks) = (ready("many").await, ready("bold").await, ready("asks").await);
        Self { many, bold, asks, settings }
    }

    /// A host with changed settings.
    pub(crate) fn bench(&self, installed: &Arc<Installed>, change: impl FnOnce(&mut Settings)) -> Bench {
        let mut settings = self.settings.clone();
        change(&mut settings);
        let host = Host::this_program().expect("main has asked");
        let http = Arc::new(Http::new(&HttpConfig::default()).expect("defaults are right"));
        Bench {
            plugins: Arc::new(Plugins::new(settings, host, http)),
            installed: installed.clone(),
            credentials: json!({}),
            owner: "app".into(),
            offered: Offered::default(),
            answers: Arc::new(MemoryStorage::new(1024)),
        }
    }
}

impl Bench {
    /// Begins an invocation.
    pub(crate) async fn begin(&self, tool: &str, parameters: Json) -> Result<Results, ToolError> {
        let (call, tool) = self.call(tool);
        call.invoke(tool, map(parameters)).await
    }

    /// Invokes a tool and returns all its messages.
    pub(crate) async fn invoke(&self, tool: &str, parameters: Json) -> Result<Vec<Message>, ToolError> {
        let mut results = self.begin(tool, parameters).await?;
        let mut all = Vec::new();
        while let Some(message) = results.next().await? {
            all.push(message);
        }
        Ok(all)
    }

    pub(crate) async fn validate(&self) -> Result<(), ToolError> {
        let first = self.installed.package.providers.tools[0].tools[0].name.clone();
        self.call(&first).0.validate_credentials().await
    }

    fn call(&self, tool: &str) -> (Call<'_>, &tidemill_plugins::package::Tool) {
        let (provider, tool) = self.installed.package.tools_named(tool)[0];
        let call = Call {
            plugins: &self.plugins,
            installed: &self.installed,
            provider,
            credentials: map(self.credentials.clone()),
            user: "tester".into(),
            owner: self.owner.clone(),
            answers: self.answers.clone(),
            offered: self.offered.clone(),
            origin: Origin::default(),
        };
        (call, tool)
    }
}

pub(crate) fn map(value: Json) -> serde_json::Map<String, Json> {
    match value {
        Json::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

/// The texts among messages.
pub(crate) fn texts(messages: &[Message]) -> Vec<&str> {
    let mut all = Vec::new();
    for message in messages {
        if let Message::Text(text) = message {
            all.push(text.as_str());
        }
    }
    all
}
