use serde_json::{Value as Json, json};

use super::filter::{Condition, Filters, Logic, Operator};
use super::rank::{Indexing, Method};
use super::router::Choice;
use super::*;
use tidemill_base::value::pool::Pool;

fn parse(changes: Json) -> Result<KnowledgeRetrievalData, Vec<String>> {
    let mut data = json!({
        "query_variable_selector": ["start", "q"],
        "dataset_ids": ["a", "b", "a"],
        "retrieval_mode": "multiple",
        "multiple_retrieval_config": {"top_k": 4, "score_threshold": null, "reranking_enable": false},
        "single_retrieval_config": {"model": {"provider": "", "name": "", "mode": ""}},
        "metadata_model_config": {"provider": "", "name": "", "mode": "chat"}
    });
    for (key, value) in changes.as_object().unwrap() {
        data[key] = value.clone();
    }
    let mut problems = Problems::new();
    KnowledgeRetrievalData::parse(data.as_object().unwrap(), &mut problems)
        .ok_or_else(|| problems.into_vec().into_iter().map(|problem| problem.path).collect())
}

fn pool() -> Pool {
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image"});
    Pool::new(json!({
        "start": {"q": "why?", "empty": "", "n": 3, "yes": true, "many": ["x", "y"], "nothing": null, "file": file, "files": [file]}
    }))
}

fn passage(content: &str, score: f64) -> Passage {
    Passage { content: content.into(), score: Some(score), ..Passage::default() }
}

fn contents(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|passage| passage.content.as_str()).collect()
}

fn multiple(changes: Json) -> MultipleConfig {
    let mut config = json!({"top_k": 2});
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    parse(json!({"multiple_retrieval_config": config})).unwrap().multiple.unwrap()
}

fn weights(vector: f64, keyword: f64) -> Json {
    json!({"vector_setting": {"vector_weight": vector}, "keyword_setting": {"keyword_weight": keyword}})
}

#[test]
fn defaults_are_difys_and_models_not_chosen_are_none() {
    let data = parse(json!({"multiple_retrieval_config": {"top_k": 4}})).unwrap();
    assert_eq!(data.dataset_ids, ["a", "b"]);
    assert_eq!(data.filtering, Filtering::Disabled);
    assert!(data.router.is_none() && data.filter_model.is_none());
    let config = data.multiple.unwrap();
    assert!(config.reranking && config.reranking_mode == Some(RerankingMode::Model));
    assert_eq!((config.score_threshold, config.reranking_model), (None, None));
    let named = json!({"top_k": 1, "reranking_model": {"provider": "p", "model": "m"}});
    let config = parse(json!({"multiple_retrieval_config": named})).unwrap().multiple.unwrap();
    assert_eq!(config.reranking_model, Some(("p".into(), "m".into())));
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let mut places = parse(json!({
        "query_variable_selector": 5, "dataset_ids": "a", "retrieval_mode": "some", "metadata_filtering_mode": "x",
        "multiple_retrieval_config": {"top_k": "four", "score_threshold": "low", "weights": {}},
        "metadata_filtering_conditions": {"logical_operator": "xor", "conditions": [
            {"name": "a", "comparison_operator": "like"}, {"comparison_operator": "is"},
            {"name": "a", "comparison_operator": "is", "value": {}}
        ]}
    }))
    .unwrap_err();
    places.sort_unstable();
    let filters = "metadata_filtering_conditions";
    let mut expected = vec![
        "dataset_ids".to_owned(),
        format!("{filters}.conditions[0].comparison_operator"),
        format!("{filters}.conditions[1]"),
        format!("{filters}.conditions[2].value"),
        format!("{filters}.logical_operator"),
        "metadata_filtering_mode".into(),
        "multiple_retrieval_config.score_threshold".into(),
        "multiple_retrieval_config.top_k".into(),
        "multiple_retrieval_config.weights.keyword_setting".into(),
        "multiple_retrieval_config.weights.vector_setting".into(),
        "query_variable_selector".into(),
        "retrieval_mode".into(),
    ];
    expected.sort_unstable();
    assert_eq!(places, expected);
}

#[test]
fn missing_settings_of_a_mode_fail_when_the_node_runs() {
    let weighted = json!({"top_k": 1, "reranking_mode": "weighted_score"});
    for (changes, message) in [
        (json!({}), None),
        (
            json!({"retrieval_mode": "single", "single_retrieval_config": null}),
            Some("single_retrieval_config is required for single retrieval mode"),
        ),
        (json!({"multiple_retrieval_config": null}), Some("multiple_retrieval_config is required")),
        (json!({"multiple_retrieval_config": weighted}), Some("weights is required")),
        (
            json!({"metadata_filtering_mode": "automatic", "metadata_model_config": null}),
            Some("metadata_model_config is required for this method"),
        ),
    ] {
        let failure = parse(changes).unwrap().check().err();
        assert_eq!(
            failure.map(|it| (it.error_type, it.message)),
            message.map(|it| ("ValueError".into(), it.into()))
        );
    }
}

#[test]
fn the_question_is_a_text_and_attachments_are_files() {
    let not_text = "Query variable is not string type.";
    let not_files = "Attachments variable is not array file or file type.";
    for (query, attachments, expected) in [
        (json!(null), json!(null), Ok(None)),
        (json!([]), json!(""), Ok(None)),
        (json!(["start", "q"]), json!(null), Ok(Some(("why?", vec!["query"])))),
        (json!("start.q"), json!(["start", "file"]), Ok(Some(("why?", vec!["query", "attachments"])))),
        (json!(null), json!(["start", "files"]), Ok(Some(("", vec!["attachments"])))),
        (json!(["start", "n"]), json!(null), Err(not_text)),
        (json!(["start", "ghost"]), json!(null), Err(not_text)),
        (json!(["start", "q"]), json!(["start", "many"]), Err(not_files)),
    ] {
        let data = parse(json!({"query_variable_selector": query, "query_attachment_selector": attachments}))
            .unwrap();
        let read = question::read(&data, &pool());
        let shown = read.as_ref().map(|asked| {
            let names = |asked: &question::RetrievalQuestion| {
                asked.inputs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            asked.as_ref().map(|asked| (asked.query.as_str(), names(asked)))
        });
        let expected = expected.map(|asked| {
            asked.map(|(query, names)| (query, names.into_iter().map(String::from).collect::<Vec<_>>()))
        });
        assert_eq!(shown.map_err(|failure| failure.message.as_str()), expected);
        assert!(read.err().is_none_or(|failure| failure.error_type.is_empty()));
    }
}

#[test]
fn question_attachments_and_filters_are_mentioned() {
    let data = parse(json!({
        "query_attachment_selector": ["start", "files"],
        "metadata_filtering_conditions": {"conditions": [
            {"name": "a", "comparison_operator": "is", "value": "{{#start.n#}}"},
            {"name": "a", "comparison_operator": "in", "value": ["{{#start.yes#}}"]}
        ]}
    }))
    .unwrap();
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    let expected = ["q", "files", "n", "yes"].map(|name| ("start".to_owned(), name.to_owned()));
    assert_eq!(mentions, expected);
}

#[test]
fn filters_keep_the_type_of_a_lone_variable_and_void_conditions_go() {
    let fill = |value: Json, operator: &str| {
        let condition = json!({"name": "f", "comparison_operator": operator, "value": value});
        let data = parse(json!({"metadata_filtering_conditions": {"conditions": [condition]}})).unwrap();
        data.filters.unwrap().fill(&pool()).map(|filters| filters.to_json()["conditions"][0]["value"].clone())
    };
    for (value, filled) in [
        (json!("{{#start.n#}}"), Some(json!(3))),
        (json!("{{#start.yes#}}"), Some(json!("True"))),
        (json!("{{#start.q#}} {{#start.n#}}"), Some(json!("why? 3"))),
        (json!(["{{#start.q#}}", "b"]), Some(json!(["why?", "b"]))),
        (json!("{{#start.many#}}"), Some(json!(["x", "y"]))),
        (json!(7), Some(json!(7))),
        (json!(null), None),
        (json!("{{#start.nothing#}}"), None),
    ] {
        assert_eq!(fill(value, "is"), filled);
    }
    assert_eq!(fill(json!(null), "not empty"), Some(Json::Null));
}

#[test]
fn conditions_hold_as_difys_database_would_have_it() {
    let document = json!({"name": "Report 7", "year": 2020, "text_year": "2021", "gone": null});
    for (field, operator, value, holds) in [
        ("name", "contains", json!("port"), true),
        ("name", "not contains", json!("port"), false),
        ("name", "start with", json!("Rep"), true),
        ("name", "end with", json!("7"), true),
        ("name", "is", json!("Report 7"), true),
        ("name", "is not", json!("Report"), true),
        ("year", "=", json!(2020), true),
        ("year", "=", json!("2020"), true),
        ("text_year", "is", json!(2021), true),
        ("year", "≠", json!(2020), false),
        ("year", ">", json!("2019"), true),
        ("year", "<", json!(2020), false),
        ("year", "≤", json!(2020), true),
        ("year", "≥", json!(2021), false),
        ("year", "after", json!(2000), true),
        ("year", "before", json!(2000), false),
        ("name", ">", json!(1), false),
        ("name", "in", json!("a, Report 7"), true),
        ("name", "not in", json!(["a"]), true),
        ("gone", "empty", json!(null), true),
        ("never", "empty", json!(null), true),
        ("name", "not empty", json!(null), true),
        ("gone", "is not", json!("x"), false),
        ("gone", "not contains", json!("x"), false),
    ] {
        let operator_ = Operator::from_name(operator).unwrap();
        let condition = Condition { name: field.into(), operator: operator_, value: value.clone() };
        let filters = Filters::new(Logic::And, vec![condition]).unwrap();
        assert_eq!(filters.matches(document.as_object().unwrap()), holds, "{field} {operator} {value}");
    }
    let condition =
        |name: &str| Condition { name: name.into(), operator: Operator::NotEmpty, value: Json::Null };
    for (logic, holds) in [(Logic::And, false), (Logic::Or, true)] {
        let filters = Filters::new(logic, vec![condition("name"), condition("gone")]).unwrap();
        assert_eq!(filters.matches(document.as_object().unwrap()), holds);
    }
}

#[test]
fn a_passage_is_kept_once_with_its_best_score() {
    let keyed =
        |key: &str, content: &str, score| Passage { key: Some(key.into()), ..passage(content, score) };
    let merged = rank::merge(vec![
        passage("same", 0.2),
        keyed("1", "x", 0.5),
        passage("same", 0.9),
        keyed("2", "x", 0.4),
        keyed("1", "x", 0.3),
    ]);
    let scores: Vec<_> = merged.iter().map(|it| (it.content.as_str(), it.order())).collect();
    assert_eq!(scores, [("same", 0.9), ("x", 0.5), ("x", 0.4)]);
}

#[test]
fn the_way_of_ranking_follows_datasets_and_settings() {
    let good = |model: &str| Indexing::HighQuality { embedding: ("p".into(), model.into()) };
    let (technique, embedding) = ("different indexing technique", "different embedding model");
    let shares = Weights { vector: 0.7, keyword: 0.3 };
    let off = json!({"reranking_enable": false});
    let model = json!({"reranking_enable": true});
    let weighted = json!({"reranking_mode": "weighted_score", "weights": weights(0.7, 0.3)});
    use Indexing::{Economy, External};
    for (config, datasets, expected) in [
        (&off, vec![External, External], Ok(Method::First)),
        (&off, vec![External], Ok(Method::First)),
        (&off, vec![Economy, Economy], Ok(Method::Keywords)),
        (&off, vec![good("a"), good("b")], Ok(Method::Scores)),
        (&off, vec![good("a"), External], Err(technique)),
        (&model, vec![good("a"), Economy, External], Ok(Method::Model)),
        (&model, vec![External, External], Ok(Method::Model)),
        (&model, vec![External], Ok(Method::First)),
        (&model, vec![Economy], Ok(Method::Keywords)),
        (&weighted, vec![External, External], Ok(Method::Weights(shares))),
        (&weighted, vec![good("a"), good("b")], Err(embedding)),
        (&weighted, vec![Economy, good("a")], Err(technique)),
        (&weighted, vec![good("a")], Ok(Method::Scores)),
    ] {
        match (rank::method(&multiple(config.clone()), &datasets), expected) {
            (Ok(method), Ok(expected)) => assert_eq!(method, expected, "{config} {datasets:?}"),
            (Err(failure), Err(part)) => {
                let text =
                    format!("The configured knowledge base list have {part}, please set reranking model.");
                assert_eq!((failure.error_type.as_str(), failure.message), ("ValueError", text));
            }
            (got, expected) => panic!("{config} {datasets:?}: {got:?}, not {expected:?}"),
        }
    }
}

#[test]
fn each_way_ranks_and_cuts() {
    let found = || vec![passage("cats and dogs", 0.2), passage("blue whales", 0.9), passage("dogs", 0.6)];
    let ranked = |method, config: Json| {
        let ranked = rank::rank(method, "dogs", found(), &multiple(config));
        contents(&ranked).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = Method::Weights(Weights { vector: 0.1, keyword: 0.9 });
    assert_eq!(ranked(Method::First, json!({})), ["cats and dogs", "blue whales"]);
    assert_eq!(ranked(Method::First, json!({"top_k": 0})).len(), 3);
    assert_eq!(ranked(Method::Scores, json!({"score_threshold": 0.5})), ["blue whales", "dogs"]);
    assert_eq!(ranked(Method::Keywords, json!({})), ["dogs", "cats and dogs"]);
    assert_eq!(ranked(words, json!({"score_threshold": 0.2})), ["dogs", "cats and dogs"]);
    let config = multiple(json!({"score_threshold": 0.5}));
    let ranked = rank::by_model(&found(), &[(2, 0.7), (0, 0.8), (1, 0.1), (9, 1.0)], &config);
    assert_eq!(contents(&ranked), ["cats and dogs", "dogs"]);
    assert_eq!(ranked[0].score, Some(0.8));
}

#[test]
fn words_weigh_the_more_the_rarer_they_are() {
    let scores = keywords::scores("Rare common", &["common", "rare", "common rare!", "common none", "none"]);
    assert!(
        scores[1] > scores[0] && (scores[2] - 1.0).abs() < 1e-9 && scores[4].to_bits() == 0,
        "{scores:?}"
    );
    assert_eq!(keywords::scores("new", &["old"]), [0.0]);
    let mut found: Vec<_> = keywords::keywords("GPT4知识库 x 水").into_iter().collect();
    found.sort_unstable();
    assert_eq!(found, ["gpt4", "x", "水", "知识", "识库"]);
}

#[test]
fn items_are_sorted_by_score_and_counted_from_one() {
    let record = |record: Json| Passage::external("d", "Docs", &record);
    let items = passage::items(vec![
        record(json!({"content": "low", "title": "T", "metadata": null})),
        record(
            json!({"content": "high", "score": 0.5, "title": "U", "metadata": {"document_id": "7", "page": 1}}),
        ),
    ]);
    let expected = json!({
        "title": "U", "content": "high", "files": null, "summary": null,
        "metadata": {
            "_source": "knowledge", "position": 1, "dataset_id": "d", "dataset_name": "Docs", "document_id": "7",
            "document_name": "U", "data_source_type": "external", "retriever_from": "workflow", "score": 0.5,
            "doc_metadata": {"document_id": "7", "page": 1}
        }
    });
    assert_eq!(items[0], expected);
    let low = &items[1]["metadata"];
    assert_eq!(
        (&low["document_id"], &low["doc_metadata"], &low["score"]),
        (&json!("T"), &json!({}), &json!(0.0))
    );
}

#[test]
fn a_reply_chooses_a_known_dataset_or_none() {
    let choice = |id| Choice { id, name: "N", description: "" };
    let choices = [choice("a=="), choice("b")];
    for (reply, chosen) in [
        ("```json\n{\"action\": \"b\", \"action_input\": \"q\"}\n```", Some(1)),
        ("I think {\"action\": \"a==\"}", Some(0)),
        ("[{\"action\": \"b\"}]", Some(1)),
        (" b\n", Some(1)),
        ("{\"action\": \"Final Answer\"}", None),
        ("{\"action\": \"c\"}", None),
        ("none of them", None),
        ("{", None),
    ] {
        assert_eq!(router::chosen(reply, &choices), chosen, "{reply}");
    }
    assert!(router::messages("why?", &choices)[1].joined_text().contains("useful for questions about N"));
}

#[test]
fn a_reply_makes_filters_of_fields_that_are_known() {
    let map = |name: &str, operator: &str| {
        json!({"metadata_map": [{"metadata_field_name": name, "metadata_field_value": "2020", "comparison_operator": operator}]})
            .to_string()
    };
    let filters = |reply: &str| automatic::filters(reply, &["year"], None).map(|filters| filters.to_json());
    assert_eq!(
        filters(&map("year", "after")),
        Some(
            json!({"logical_operator": "or", "conditions": [{"name": "year", "comparison_operator": "after", "value": "2020"}]})
        )
    );
    for reply in
        [map("author", "is"), map("year", "near"), "{}".into(), "?".into(), "{\"metadata_map\": []}".into()]
    {
        assert_eq!(filters(&reply), None, "{reply}");
    }
}
