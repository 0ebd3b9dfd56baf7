//! Files of runs, without a setting for their place.

use tidemill_embed::{EmbedError, Inputs, Outcome};

use crate::engine;

const SHOW: &str = "
app: {mode: workflow, name: Show}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - id: start
      data:
        type: start
        title: Start
        variables: [{variable: doc, label: Doc, type: file, required: true, allowed_file_types: [document], allowed_file_upload_methods: [local_file]}]
    - {id: end, data: {type: end, title: End, outputs: [{variable: doc, value_selector: [start, doc]}]}}
    edges: [{source: start, target: end}]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_uploaded_file_is_an_input_of_its_user() {
    let engine = engine().await;
    let file = engine
        .upload("tide & time.txt", b"High water at seven.".to_vec(), "ann")
        .await
        .expect("it is stored");
    let inputs = |user: &str| Inputs::new().input("doc", file.clone()).user(user);
    let run = engine.run(SHOW, inputs("ann")).await.expect("the run starts");
    let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else { panic!("it fails") };
    assert_eq!(outputs["doc"]["filename"], "tide & time.txt");
    let refused = engine.run(SHOW, inputs("bob")).await;
    assert!(matches!(refused, Err(EmbedError::Refused { .. })), "another user took the file");
    engine.stop().await;
}
