use super::*;

/// These tests need redis-server. Where it is not installed they print that and pass.
async fn started(dir: &Path) -> Option<RedisServer> {
    match RedisServer::start(dir).await {
        Ok(server) => Some(server),
        Err(RedisServerError::NotInstalled) => {
            eprintln!("redis-server is not installed; nothing was tested");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn folder() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().canonicalize().expect("there");
    (dir, path)
}

#[tokio::test]
async fn data_is_kept_until_the_next_start() {
    let (_dir, path) = folder();
    let Some(server) = started(&path).await else { return };
    assert!(server.url().starts_with("unix:///"));
    assert_eq!(ask(&server.socket, "SET a 1").await.expect("answers"), "+OK\r\n");
    server.stop().await;
    let server = started(&path).await.expect("installed");
    assert_eq!(ask(&server.socket, "GET a").await.expect("answers"), "$1\r\n1\r\n");
    let policy = ask(&server.socket, "CONFIG GET maxmemory-policy").await.expect("answers");
    assert!(policy.contains("noeviction"), "{policy}");
    server.stop().await;
}

#[tokio::test]
async fn a_redis_left_running_is_shut_down_and_its_data_kept() {
    let (_dir, path) = folder();
    let Some(mut left) = started(&path).await else { return };
    ask(&left.socket, "SET a 2").await.expect("answers");
    let server = started(&path).await.expect("installed");
    left.ended().await;
    assert_eq!(ask(&server.socket, "GET a").await.expect("answers"), "$1\r\n2\r\n");
    server.stop().await;
}

#[tokio::test]
async fn the_redis_of_another_folder_is_not_touched() {
    let ((_a, ours), (_b, theirs)) = (folder(), folder());
    let Some(foreign) = started(&theirs).await else { return };
    std::os::unix::fs::symlink(&foreign.socket, ours.join("redis.sock")).expect("links");
    let error = RedisServer::start(&ours).await.expect_err("foreign");
    assert!(matches!(error, RedisServerError::Foreign { .. }), "{error}");
    assert_eq!(ask(&foreign.socket, "PING").await.expect("lives"), "+PONG\r\n");
    foreign.stop().await;
}

#[tokio::test]
async fn a_data_folder_with_a_long_path_gets_its_socket_elsewhere() {
    let (_dir, path) = folder();
    let long = path.join("x".repeat(120));
    std::fs::create_dir(&long).expect("makes");
    let Some(server) = started(&long).await else { return };
    assert!(server.socket.as_os_str().len() <= SOCKET_PATH_MAX);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let (_dir, path) = folder();
    if started(&path).await.is_none() {
        return;
    }
    let (_dir, path) = folder();
    std::fs::create_dir_all(path.join("appendonlydir")).expect("makes");
    std::fs::write(path.join("appendonlydir/appendonly.aof.manifest"), "nonsense\n").expect("writes");
    let error = RedisServer::start(&path).await.expect_err("broken").to_string();
    assert!(error.contains("ended at once") && error.contains("redis.log"), "{error}");
}
