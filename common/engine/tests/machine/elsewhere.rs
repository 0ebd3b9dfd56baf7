//! Exports a run, and continues it as another run.

use super::play::Play;
use tidemill_base::ids::{BlobId, RunId, ShardId};
use tidemill_base::value::Stored;
use tidemill_wire::snapshot::{self, PoolValue, PoolVariable};

impl Play {
    /// Returns a run that continues from a snapshot of this one. The snapshot is written as text and read again.
    pub(super) fn elsewhere(&self) -> Self {
        let snapshot = snapshot::read(&self.exported()).expect("what was exported can be read");
        let graph = self.run.graph.0.clone();
        let mut other = Self::submitted(graph.clone(), Vec::new(), |head| *head = snapshot.head.clone());
        other.run.id = RunId::new(4, 5, ShardId(3));
        other.now = self.now;
        other.blobs = snapshot.blobs.iter().cloned().collect();
        let mut kept = Vec::new();
        for (at, variable) in snapshot.variables.iter().enumerate() {
            let value = match &variable.value {
                PoolValue::Whole(segment) => other.stored(&format!("imported-{at}"), segment.clone()),
                PoolValue::Secret(name) => Stored::Secret(name.as_str().into()),
            };
            kept.push((variable.clone(), value));
        }
        let body = snapshot.fact(&snapshot.head, &kept, None);
        let fact = snapshot::parse_fact(other.run.id, &graph, &body).expect("the fact can be read");
        other.feed(vec![fact]);
        other
    }

    fn exported(&self) -> String {
        let rest = self.kept.at_rest();
        let whole = |stored: &Stored| match stored {
            Stored::Secret(name) => PoolValue::Secret(name.to_string()),
            Stored::Inline(_) | Stored::Blob(_) | Stored::Item { .. } => {
                PoolValue::Whole(self.opened(stored))
            }
        };
        let variables = snapshot::variables(&self.run).into_iter();
        let variables: Vec<PoolVariable> = variables
            .map(|(frame, node, name, stored)| PoolVariable { frame, node, name, value: whole(&stored) })
            .collect();
        let blob = |name: String| {
            let value = serde_json::from_str(&self.blobs[&BlobId::from(name.as_str())]).unwrap();
            (name, value)
        };
        let blobs = snapshot::blobs(&self.run, &rest).into_iter().map(blob).collect();
        snapshot::write(&self.run, &rest, "", &variables, blobs, self.now).to_string()
    }
}
