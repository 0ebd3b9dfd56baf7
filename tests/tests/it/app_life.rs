//! The life of an app after it was published: it is switched off and on, an earlier version becomes current again, and it is
//! removed. And the removal of one of its users. Each with two schedulers.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

/// A workflow that needs a worker, with a name of its own.
fn slow() -> Flow {
    Flow::new("start -> a -> end")
}

fn asked(user: &str) -> Json {
    json!({"inputs": {}, "user": user, "response_mode": "blocking"})
}

pub(super) async fn delete(client: &Client, path: &str) -> HttpResponse {
    client.send(client.request(Method::DELETE, path)).await
}

fn tidemill(cluster: &Cluster, scheduler: &Scheduler, words: &[&str]) -> String {
    let mut command = cluster.command("tidemill");
    command.args(words).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    let output = command.env("TIDEMILL_KEY", ADMIN_KEY).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All keys of a Redis with what they hold, a line each.
pub(super) fn everything(redis: &Redis) -> String {
    let script = "local all = {} \
        for _, key in ipairs(redis.call('KEYS', '*')) do \
          local kind, value = redis.call('TYPE', key).ok, nil \
          if kind == 'string' then value = redis.call('GET', key) end \
          if kind == 'hash' then value = redis.call('HGETALL', key) end \
          if kind == 'list' then value = redis.call('LRANGE', key, 0, -1) end \
          if kind == 'set' then value = redis.call('SMEMBERS', key) end \
          if kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1) end \
          if kind == 'stream' then value = redis.call('XRANGE', key, '-', '+') end \
          all[#all + 1] = key .. ' ' .. cjson.encode(value) \
        end \
        return table.concat(all, '\\n')";
    redis.cli(&["EVAL", script, "0"])
}

/// The lines that contain one of these words.
pub(super) fn lines_with(text: &str, words: &[&str]) -> Vec<String> {
    let has = |line: &&str| words.iter().any(|word| line.contains(word));
    text.lines().filter(has).map(str::to_owned).collect()
}

/// The files below a folder that contain one of these words, by name or content.
fn files_with(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
            continue;
        }
        let content = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
        let name = path.display().to_string();
        if words.iter().any(|word| content.contains(word) || name.contains(word)) {
            found.push(name);
        }
    }
    found
}

pub(super) async fn until_removed(client: &Client) {
    // Each level of called runs needs a look of its own.
    until("all removals to be done", LONG * 4, async || {
        let found = client.get("/api/v1/removals").await;
        if found.body["data"] == json!([]) { Ok(()) } else { Err(found.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_off_accepts_no_run_at_any_scheduler_and_those_under_way_continue() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let admin = here.client();
    let (id, app) = admin.register(&slow()).await;
    let app_there = Client::new(&there.address, app.key());
    let run = admin.submit(&json!({"app": id, "inputs": {}})).await;

    let off = admin.post(&format!("/api/v1/apps/{id}/disable"), &json!({})).await;
    assert_eq!((off.status, &off.body["state"]), (200, &json!("off")), "{}", off.text);
    for client in [&app, &app_there] {
        let refused = client.post("/v1/workflows/run", &asked("u")).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &json!("app_unavailable")),
            "{}",
            refused.text
        );
        assert_eq!(client.get("/v1/info").await.status, 200, "reads go on");
    }
    for admin in [here.client(), there.client()] {
        let refused = admin.post("/api/v1/runs", &json!({"app": id, "inputs": {}})).await;
        assert_eq!((refused.status, &refused.body["code"]), (409, &json!("app_off")), "{}", refused.text);
    }
    let listed = tidemill(&cluster, &there, &["apps", "ls"]);
    assert!(listed.contains(" off "), "{listed}");
    let doctor = cluster.command("tidemill").arg("doctor").output().expect("it starts");
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("apps that are off") && doctor.contains(&id), "{doctor}");

    // A new version leaves it off.
    let again = admin.post("/api/v1/apps", &json!({"id": id, "workflow": slow().text()})).await;
    assert_eq!((again.status, &again.body["unchanged"]), (200, &json!(true)), "{}", again.text);
    assert_eq!(app.post("/v1/workflows/run", &asked("u")).await.status, 400);

    let _worker = cluster.worker().await;
    assert_eq!(admin.ended(&run).await["status"], "succeeded", "a run under way goes on");
    let shown = tidemill(&cluster, &there, &["apps", "enable", &id]);
    assert!(shown.contains("on"), "{shown}");
    let run = app.post("/v1/workflows/run", &asked("u")).await;
    assert_eq!(run.body["data"]["status"], "succeeded", "{}", run.text);
    assert_eq!(admin.post("/api/v1/apps/none/disable", &json!({})).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_version_becomes_current_again_and_pinned_ones_go_on() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let (one, two) = (Flow::new("start -> end"), Flow::new("start -> end").inputs(&["who"]));
    let (id, app) = here.client().register(&one).await;
    let publish = async |flow: &Flow| {
        let answer = there.client().post("/api/v1/apps", &json!({"id": id, "workflow": flow.text()})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body
    };
    let first = publish(&one).await;
    assert_eq!(first["unchanged"], true, "{first}");
    let second = publish(&two).await;
    assert_eq!(second["unchanged"], false, "{second}");
    let pinned = format!("/v1/workflows/{}/run", second["workflow_id"].as_str().expect("a text"));

    let path = format!("/api/v1/apps/{id}/rollback");
    let back = here.client().post(&path, &json!({"version": first["version"]})).await;
    assert_eq!((back.status, &back.body["version"]), (200, &first["version"]), "{}", back.text);
    assert_eq!((&back.body["unchanged"], &back.body["key"]), (&json!(false), &Json::Null));
    let current = there.client().get(&format!("/api/v1/apps/{id}")).await;
    assert_eq!(current.body["version"], first["version"], "{}", current.text);
    let run = app.post("/v1/workflows/run", &asked("u")).await;
    assert_eq!(run.body["data"]["status"], "succeeded", "the version without inputs: {}", run.text);
    let body = json!({"inputs": {"who": "Ada"}, "user": "u", "response_mode": "blocking"});
    let run = app.post(&pinned, &body).await;
    assert_eq!(run.body["data"]["status"], "succeeded", "the pinned version: {}", run.text);
    let again = here.client().post(&path, &json!({"version": first["version"]})).await;
    assert_eq!(again.body["unchanged"], true, "{}", again.text);
    for (body, status) in [(json!({"version": "none"}), 404), (json!({}), 400), (json!({"to": "x"}), 400)] {
        assert_eq!(here.client().post(&path, &body).await.status, status, "{body}");
    }
}

/// A chat that keeps what it is asked.
fn chat() -> Json {
    let flow = Flow::new("start -> note -> answer")
        .with(
            "note",
            json!({"type": "assigner", "version": "2", "items": [
                {"variable_selector": ["conversation", "log"], "input_type": "variable", "operation": "append",
                 "value": ["sys", "query"]},
            ]}),
        )
        .answer("answer", "{{#sys.query#}}");
    let mut document = flow.document();
    document["workflow"]["conversation_variables"] = json!([
        {"id": "22222222-2222-4222-8222-222222222222", "name": "log", "value_type": "array[string]", "value": []},
    ]);
    document
}

async fn publish_chat(admin: &Client) -> (String, Client) {
    let answer = admin.post("/api/v1/apps", &json!({"workflow": chat().to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let text = |name: &str| answer.body[name].as_str().expect("a text").to_owned();
    (text("id"), admin.with_key(Some(&text("key"))))
}

/// What a user of a chat leaves: two turns, a rating, an upload.
async fn uses(app: &Client, admin: &Client, id: &str, user: &str, word: &str) {
    let mut body = json!({"query": word, "inputs": {}, "user": user, "response_mode": "blocking"});
    let first = app.post("/v1/chat-messages", &body).await;
    assert_eq!(first.status, 200, "{}", first.text);
    body["conversation_id"] = first.body["conversation_id"].clone();
    let second = app.post("/v1/chat-messages", &body).await;
    assert_eq!(second.status, 200, "{}", second.text);
    let message = second.body["message_id"].as_str().expect("a text");
    let rating = json!({"rating": "like", "user": user, "content": word});
    let rated = app.post(&format!("/v1/messages/{message}/feedbacks"), &rating).await;
    assert_eq!(rated.status, 200, "{}", rated.text);
    let path = format!("/api/v1/files?name={word}.txt&user={user}&app={id}");
    let request = admin.request(Method::POST, &path).header("content-type", "text/plain");
    let uploaded = admin.send(request.body(word.to_owned())).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_off_makes_no_runs_for_questions_and_speech() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let _worker = cluster.worker().await;
    let admin = scheduler.client();
    let (id, app) = publish_chat(&admin).await;
    let body = json!({"query": "hello", "inputs": {}, "user": "u", "response_mode": "blocking"});
    let said = app.post("/v1/chat-messages", &body).await;
    let message = said.body["message_id"].as_str().unwrap_or_else(|| panic!("{}", said.text));
    let asks = async || {
        let suggested = app.get(&format!("/v1/messages/{message}/suggested?user=u")).await;
        let spoken = app.post("/v1/text-to-audio", &json!({"text": "hello", "user": "u"})).await;
        let heard = app.request(Method::POST, "/v1/audio-to-text");
        let heard = heard.header("content-type", "multipart/form-data; boundary=cut").body("--cut--\r\n");
        [suggested, spoken, app.send(heard).await]
    };
    for on in [true, false, true] {
        let path = format!("/api/v1/apps/{id}/{}", if on { "enable" } else { "disable" });
        let set = admin.post(&path, &json!({})).await;
        assert_eq!(set.status, 200, "{}", set.text);
        for answer in asks().await {
            // The features of the app are off, which is another refusal.
            let is_unavailable = answer.body["code"] == "app_unavailable";
            assert!(answer.status == 400 && is_unavailable != on, "on: {on}: {}", answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_off_accepts_no_run_on_shards_that_are_added_later() {
    const SHARDS: usize = 12;
    let cluster = Cluster::start(&[("scheduler.shards", "2")], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let admin = here.client();
    let (id, _) = admin.register(&Flow::new("start -> end")).await;
    let set = async |to: &str| {
        let answer = admin.post(&format!("/api/v1/apps/{id}/{to}"), &json!({})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    };
    let marks = || {
        let is_marked =
            |shard: &usize| cluster.redis.cli(&["GET", &format!("tm:{{{shard}}}:closed:{id}")]) == "off";
        (0..SHARDS).filter(is_marked).count()
    };
    set("disable").await;
    assert_eq!(marks(), 2);
    let raised = admin.post("/api/v1/shards", &json!({"shards": SHARDS})).await;
    assert_eq!(raised.status, 200, "{}", raised.text);
    assert_eq!(marks(), SHARDS);
    for client in [&admin, &there.client()] {
        for _ in 0..SHARDS {
            let refused = client.post("/api/v1/runs", &json!({"app": id, "inputs": {}})).await;
            assert_eq!((refused.status, &refused.body["code"]), (409, &json!("app_off")), "{}", refused.text);
        }
    }
    set("enable").await;
    assert_eq!(marks(), 0);
    let run = admin.submit(&json!({"app": id, "inputs": {}})).await;
    assert_eq!(admin.ended(&run).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_removed_with_all_that_belongs_to_it_also_when_a_scheduler_dies_meanwhile() {
    let cluster = Cluster::start(&[("files.url", "place")], None).await;
    let (mut here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let (admin, redis) = (there.client(), &cluster.redis);
    let (id, app) = publish_chat(&admin).await;
    let (kept, other) = publish_chat(&admin).await;
    let mut worker = cluster.worker().await;
    uses(&app, &admin, &id, "ada", "first-word").await;
    uses(&other, &admin, &kept, "ada", "other-word").await;
    // The next run stays open.
    worker.process.kill();
    worker.process.ended(LONG).await;
    let (waits, waiting) = admin.register(&slow()).await;
    let run = admin.submit(&json!({"app": waits, "inputs": {}, "user": "ada"})).await;

    let refused = delete(&admin, &format!("/api/v1/apps/{waits}")).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("app_in_use")), "{}", refused.text);
    assert_eq!(refused.body["run"], run.as_str());
    for path in [format!("/api/v1/apps/{waits}?runs=lose"), format!("/api/v1/apps/{waits}?runs=")] {
        assert_eq!(delete(&admin, &path).await.status, 400, "{path}");
    }
    for removed in [&waits, &id] {
        let begun = delete(&here.client(), &format!("/api/v1/apps/{removed}?runs=remove")).await;
        assert_eq!(begun.status, 202, "{}", begun.text);
        assert_eq!((&begun.body["app"], &begun.body["runs"]), (&json!(removed), &json!("remove")));
    }
    here.process.kill();
    here.process.ended(LONG).await;
    for client in [&app, &waiting] {
        let client = Client::new(&there.address, client.key());
        assert_eq!(client.get("/v1/info").await.status, 401, "its key opens nothing");
    }
    for path in ["disable", "enable"] {
        let refused = admin.post(&format!("/api/v1/apps/{id}/{path}"), &json!({})).await;
        assert!([404, 409].contains(&refused.status), "{}", refused.text);
    }
    until_removed(&admin).await;

    let listed = admin.get("/api/v1/apps").await;
    let ids: Vec<&str> =
        listed.body["data"].as_array().into_iter().flatten().filter_map(|app| app["id"].as_str()).collect();
    assert_eq!(ids, [kept.as_str()], "{}", listed.text);
    assert_eq!(delete(&admin, &format!("/api/v1/apps/{id}")).await.status, 404);
    until("nothing of the apps to be left", LONG, async || {
        let left = lines_with(&everything(redis), &[id.as_str(), waits.as_str(), "first-word", run.as_str()]);
        // The marks that refuse late runs, the records of revoked keys, and the audit log.
        let is_meant = |line: &String| {
            line.contains(":closed:") || line.starts_with("tm:keys:revoked ") || line.starts_with("tm:audit ")
        };
        let left: Vec<String> = left.into_iter().filter(|line| !is_meant(line)).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    })
    .await;
    assert_eq!(files_with(&cluster.logs().join("place"), &["first-word"]), Vec::<String>::new());
    let audit = admin.get("/api/v1/audit").await;
    assert!(audit.text.contains("DELETE /apps/{id}") && audit.text.contains(&id), "{}", audit.text);

    // The other app is as it was.
    let conversations = other.get("/v1/conversations?user=ada").await;
    assert_eq!(conversations.body["data"].as_array().map(Vec::len), Some(1), "{}", conversations.text);
    assert_eq!(
        files_with(&cluster.logs().join("place"), &["other-word"]).len(),
        2,
        "the upload and its record"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_removed_app_are_kept_or_stopped_as_the_caller_says() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let admin = here.client();
    let mut runs = Vec::new();
    for fate in ["keep", "stop"] {
        let (id, _) = admin.register(&slow()).await;
        let run = admin.submit(&json!({"app": id, "inputs": {}})).await;
        let begun = delete(&there.client(), &format!("/api/v1/apps/{id}?runs={fate}")).await;
        assert_eq!(begun.status, 202, "{}", begun.text);
        let late = admin.post("/api/v1/runs", &json!({"app": id, "inputs": {}})).await;
        assert!([404, 409].contains(&late.status), "{}", late.text);
        runs.push(run);
    }
    until_removed(&admin).await;
    assert_eq!(admin.run(&runs[1]).await["status"], "stopped");
    assert_eq!(admin.run(&runs[0]).await["status"], "running");
    let _worker = cluster.worker().await;
    assert_eq!(admin.ended(&runs[0]).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_user_who_is_removed_and_others_are_as_before() {
    const NAME: &str = "canary-of-ada";
    const WORD: &str = "canary-word";
    let cluster = Cluster::start(&[("files.url", "place")], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let (admin, redis) = (here.client(), &cluster.redis);
    let (id, app) = publish_chat(&admin).await;
    let mut worker = cluster.worker().await;
    uses(&app, &admin, &id, NAME, WORD).await;
    uses(&app, &admin, &id, "bob", "bobs-word").await;
    // The next run stays open.
    worker.process.kill();
    worker.process.ended(LONG).await;
    let open = json!({"app": id, "inputs": {}, "user": NAME, "query": WORD, "conversation_id": "own-1"});
    admin.submit(&open).await;
    assert!(
        !lines_with(&everything(redis), &[NAME]).is_empty()
            && !lines_with(&everything(redis), &[WORD]).is_empty()
    );

    let said = tidemill(&cluster, &there, &["apps", "rm-user", &id, NAME, "--wait"]);
    assert!(said.contains("removed"), "{said}");
    assert_eq!(admin.get("/api/v1/removals").await.body["data"], json!([]));
    until("nothing of the user to be left in Redis", LONG, async || {
        let left = lines_with(&everything(redis), &[NAME, WORD]);
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    })
    .await;
    assert_eq!(files_with(cluster.logs(), &[NAME, WORD]), Vec::<String>::new(), "in files, nor in logs");
    let audit = admin.get("/api/v1/audit").await;
    assert!(audit.text.contains("DELETE /apps/{id}/users/{user}"), "{}", audit.text);
    assert!(audit.text.contains("end_user"), "{}", audit.text);

    let bob = app.get("/v1/conversations?user=bob").await;
    assert_eq!(bob.body["data"].as_array().map(Vec::len), Some(1), "{}", bob.text);
    let ada = app.get(&format!("/v1/conversations?user={NAME}")).await;
    assert_eq!(ada.body["data"], json!([]), "{}", ada.text);
    // The user may come back.
    let _worker = cluster.worker().await;
    uses(&app, &admin, &id, NAME, "new-word").await;
    let too_long = "x".repeat(256);
    let refused = delete(&admin, &format!("/api/v1/apps/{id}/users/{too_long}")).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(delete(&admin, "/api/v1/apps/none/users/u").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_app_with_the_id_of_a_removed_one_stays() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let (admin, other) = (here.client(), there.client());
    let (id, _) = admin.register(&Flow::new("start -> end")).await;
    let begun = delete(&admin, &format!("/api/v1/apps/{id}")).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    let body = json!({"id": id, "workflow": Flow::new("start -> end").text()});
    let key = until("the id to be free", LONG, async || {
        let made = other.post("/api/v1/apps?create=true", &body).await;
        match made.status {
            201 => Ok(made.body["key"].as_str().expect("a new app has a key").to_owned()),
            _ => {
                assert_eq!((made.status, &made.body["code"]), (409, &json!("app_removing")), "{}", made.text);
                Err(made.text)
            }
        }
    })
    .await;
    assert_eq!(admin.get("/api/v1/removals").await.body["data"], json!([]), "the removal went with the app");
    let app = Client::new(&there.address, Some(&key));
    let run = app.post("/v1/workflows/run", &asked("u")).await;
    assert_eq!(run.body["data"]["status"], "succeeded", "{}", run.text);
}
