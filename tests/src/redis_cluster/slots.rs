//! Moves slots from master to master: key by key as operators do, or at once.

use super::{RedisCluster, SLOTS};

/// Keys that one command moves.
const KEYS: &str = "10";

impl RedisCluster {
    /// The slot of a key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        self.ask(0, &["CLUSTER", "KEYSLOT", key]).await
    }

    /// The master of a slot, as the server `asked` says.
    ///
    /// # Panics
    /// When no server has it.
    pub async fn owner_of(&self, slot: u16, asked: usize) -> usize {
        assert!(slot < SLOTS, "{slot} is no slot");
        let ranges: Vec<(u16, u16, (String, u16))> = self.ranges(asked).await;
        let port = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        let port = port.map(|(_, _, (_, port))| *port).expect("each slot has a master");
        self.at_port(port).expect("it is one of the servers")
    }

    async fn ranges(&self, asked: usize) -> Vec<(u16, u16, (String, u16))> {
        use redis::FromRedisValue;
        let all: Vec<Vec<redis::Value>> = self.ask(asked, &["CLUSTER", "SLOTS"]).await;
        let read = |range: Vec<redis::Value>| {
            let mut parts = range.into_iter();
            let first = u16::from_redis_value(parts.next()?).ok()?;
            let last = u16::from_redis_value(parts.next()?).ok()?;
            let mut master = Vec::<redis::Value>::from_redis_value(parts.next()?).ok()?.into_iter();
            let host = String::from_redis_value(master.next()?).ok()?;
            Some((first, last, (host, u16::from_redis_value(master.next()?).ok()?)))
        };
        all.into_iter().filter_map(read).collect()
    }

    /// Begins to move a slot: from now on the servers send clients after its keys.
    pub async fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, from_id, to_id) = (slot.to_string(), self.id(from).await, self.id(to).await);
        self.ask::<()>(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await;
        self.ask::<()>(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await;
    }

    /// Moves some keys of the slot. Returns false when none was left.
    pub async fn move_some(&self, slot: u16, from: usize, to: usize) -> bool {
        let keys: Vec<String> = self.ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), KEYS]).await;
        if keys.is_empty() {
            return false;
        }
        let port = self.servers[to].port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        // A key that expired or was deleted meanwhile does not matter.
        let _: String = self.ask(from, &words).await;
        true
    }

    /// Ends the move: the slot belongs to its new master.
    pub async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, to_id) = (slot.to_string(), self.id(to).await);
        for at in [to, from] {
            self.ask::<()>(at, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
        }
        for at in self.masters().await {
            drop(self.try_ask::<()>(at, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await);
        }
    }

    /// Moves a slot with all its keys.
    pub async fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to).await;
        while self.move_some(slot, from, to).await {}
        self.end_move(slot, from, to).await;
    }
}
