//! A cluster in which tests open sessions.

use std::sync::Arc;

use solera_config::{ClusterSpec, Overrides};
use solera_node::{Cluster, Incomplete, Local, Modules};
use solera_resp::Value;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// A host that sends each [`Local`], with which sessions can be opened, to a test, and answers no
/// request.
struct Handing(UnboundedSender<Local>);

impl Modules for Handing {
    fn run(&self, local: Local, _: Vec<Vec<u8>>) -> oneshot::Receiver<Value> {
        self.0.send(local).expect("a test waits for it");
        oneshot::channel().1
    }

    fn incomplete(&self) -> Option<Incomplete> {
        None
    }
}

/// Starts a cluster of two sites. Returns the cluster, and a [`Local`] with which sessions at the
/// first site can be opened.
pub(crate) async fn start(config: &str) -> (Cluster, Local) {
    let (sender, mut locals) = unbounded_channel();
    let over = Overrides { sites: Some(2), ..Overrides::default() };
    let spec = ClusterSpec::parse("test", config, over).expect("the test's settings are right");
    let modules = Some(Arc::new(Handing(sender)) as _);
    let cluster = Cluster::start(spec, modules).expect("a cluster without ports starts");
    let mut client = cluster.connect(0).expect("its sites are alive");
    client.write_all(b"SOLERA.CALL m.t\r\n").await.expect("the site reads");
    (cluster, locals.recv().await.expect("the host sends it"))
}
