//! One node of a cluster: its ports, its workers, and its links to the other nodes.

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use solera_config::areas::SITES;
use solera_config::{ClusterSpec, ConfigError, HostPort};
use solera_machine::NodeId;
use solera_time::SiteId;
use tokio_rustls::TlsAcceptor;
use tracing::warn;

use crate::admin::AdminListener;
use crate::clock::Clock;
use crate::cluster::{Cluster, StartError, admin_tls};
use crate::data_dir::part_of;
use crate::handshake::{clock_us, identity};
use crate::here::Here;
use crate::link::Link;
use crate::links::Carrier;
use crate::membership::{refused_by, share};
use crate::modules::Modules;
use crate::random::random;
use crate::refused::Refused;
use crate::run::Run;
use crate::status::{NodeStatus, ReachedSite, SiteStatus, SpeculativeStatus};
use crate::tls::{PeerTls, for_clients};

/// Reason why a node cannot serve.
#[derive(Debug)]
pub enum ServeError {
    /// The configuration lists no nodes.
    NoNodes,
    /// No site has this name.
    NoSuchSite(String, Vec<String>),
    /// The site has fewer nodes.
    NoSuchNode(usize, String, usize),
    /// The node cannot listen at one of its addresses.
    Listen {
        /// Name of the node for messages.
        node: String,
        /// Name of the setting with the address.
        setting: &'static str,
        /// Address.
        address: String,
        /// Reason.
        error: std::io::Error,
    },
    /// The certificates or keys for TLS cannot be used.
    Tls(ConfigError),
    /// The workers cannot start.
    Start(StartError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::NoNodes => write!(
                f,
                "the configuration lists no nodes; give each [[site]] its [[site.node]] with resp, \
                 peer and admin"
            ),
            ServeError::NoSuchSite(name, sites) => {
                write!(f, "there is no site '{name}'; the sites are {}", sites.join(", "))
            }
            ServeError::NoSuchNode(node, site, 1) => {
                write!(f, "site {site} has no node {node}; it has node 1 alone")
            }
            ServeError::NoSuchNode(node, site, nodes) => {
                write!(f, "site {site} has no node {node}; its nodes are 1 to {nodes}")
            }
            ServeError::Listen { node, setting, address, error } => {
                let reason = match error.kind() {
                    std::io::ErrorKind::AddrInUse => {
                        "the port is in use by another program".to_owned()
                    }
                    _ => error.to_string(),
                };
                write!(f, "{node} cannot listen on {address} ({setting}): {reason}")
            }
            ServeError::Tls(error) => error.fmt(f),
            ServeError::Start(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}

/// A node that has bound its ports and does not run yet.
pub struct Node {
    id: NodeId,
    name: String,
    spec: ClusterSpec,
    resp: Option<SocketAddr>,
    resp_tls: Option<SocketAddr>,
    tls: Option<TlsAcceptor>,
    admin_tls: Option<TlsAcceptor>,
    peer_tls: Option<PeerTls>,
    peer: TcpListener,
    admin: TcpListener,
}

impl Node {
    /// Binds the ports of node `node`, counted from 1, of a site. The addresses have the hosts that
    /// the configuration names, or `bind` if it is given.
    ///
    /// # Errors
    /// The site or the node does not exist, or a port cannot be bound.
    pub fn bind(
        spec: ClusterSpec,
        site: &str,
        node: usize,
        bind: Option<IpAddr>,
    ) -> Result<Node, ServeError> {
        if spec.nodes().next().is_none() {
            return Err(ServeError::NoNodes);
        }
        let names = || spec.sites.iter().map(|site| site.name.clone()).collect();
        let index = spec.sites.iter().position(|other| other.name.eq_ignore_ascii_case(site));
        let index = index.ok_or_else(|| ServeError::NoSuchSite(site.to_owned(), names()))?;
        let found = &spec.sites[index];
        let count = found.nodes.len();
        let Some(listed) = node.checked_sub(1).and_then(|place| found.nodes.get(place)) else {
            return Err(ServeError::NoSuchNode(node, found.name.clone(), count));
        };
        let id = NodeId { site: SiteId(index as u8), node: (node - 1) as u8 };
        let name = spec.name_of(id);
        let take = |setting, address: &HostPort| {
            take_port(address, bind).map_err(|error| ServeError::Listen {
                node: name.clone(),
                setting,
                address: bind.map_or_else(
                    || address.to_string(),
                    |bind| SocketAddr::new(bind, address.port).to_string(),
                ),
                error,
            })
        };
        let tls = spec.tls.as_ref().filter(|_| listed.resp_tls.is_some());
        let tls = tls.map(|tls| for_clients(&tls.files)).transpose().map_err(ServeError::Tls)?;
        let admin_tls = admin_tls(&spec).map_err(ServeError::Tls)?;
        let peer_tls = spec.peer_tls.as_ref();
        let peer_tls = peer_tls.map(|files| PeerTls::load(files, &name, &listed.peer.host));
        let peer_tls = peer_tls.transpose().map_err(ServeError::Tls)?;
        let take_optional = |setting, address: Option<&HostPort>| {
            address.map(|address| take(setting, address).map(|(found, _)| found)).transpose()
        };
        // Bind the addresses exclusively first: workers share them, and sharing would hide another
        // program's listener.
        let resp = take_optional("resp", listed.resp.as_ref())?;
        let resp_tls = take_optional("resp_tls", listed.resp_tls.as_ref())?;
        let (_, peer) = take("peer", &listed.peer)?;
        let (_, admin) = take("admin", &listed.admin)?;
        Ok(Node { id, name, resp, resp_tls, tls, admin_tls, peer_tls, peer, admin, spec })
    }

    /// Returns the name of the node for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the addresses at which the node listens, with the names of their settings.
    pub fn addresses(&self) -> [(&'static str, Option<SocketAddr>); 4] {
        let (peer, admin) = (self.peer.local_addr().ok(), self.admin.local_addr().ok());
        [("resp", self.resp), ("resp_tls", self.resp_tls), ("peer", peer), ("admin", admin)]
    }

    /// Starts the node's workers and links. The caller must still serve HTTP, which runs on the
    /// caller's event loop. `generation` is set for a site that was removed and joins again;
    /// `solera site add` prints it.
    ///
    /// # Errors
    /// A thread cannot be started, or another program took a port in the meantime.
    pub fn start(
        self,
        generation: Option<u32>,
        modules: Option<Arc<dyn Modules>>,
    ) -> Result<(Cluster, AdminListener), ServeError> {
        let Node { id: me, name, mut spec, resp, resp_tls, peer, admin, .. } = self;
        let current = |tls: TlsAcceptor| Arc::new(ArcSwap::from_pointee(tls));
        let cannot_listen = |setting| {
            let node = name.clone();
            move |error| ServeError::Listen { node, setting, address: "its port".to_owned(), error }
        };
        let admin = AdminListener::from_std(admin).map_err(cannot_listen("admin"))?;
        let site = &mut spec.sites[me.site.index()];
        (site.listen, site.listen_tls) = (resp, resp_tls);
        if let Some(shared) = &spec.shared_data {
            spec.data = Some(part_of(shared, &site.name, usize::from(me.node) + 1));
        }
        let spec = Arc::new(spec);
        let links: Vec<Arc<Link>> = spec
            .nodes()
            .filter(|(id, _)| *id != me)
            .map(|(id, node)| {
                let within_site = id.site == me.site;
                Arc::new(Link::new(id, spec.name_of(id), node.peer.clone(), within_site))
            })
            .collect();
        let link_to = |worker| {
            let node = spec.node_of(worker);
            links.iter().find(|link| Some(link.peer) == node).cloned()
        };
        let incarnation = random();
        // Other nodes also identify the cluster by this number. 48 bits are short on the wire, and
        // suffice.
        let peer_tls = self.peer_tls.map(|tls| Arc::new(ArcSwap::from_pointee(tls)));
        let run = Run {
            cluster: spec.id(),
            first_number: incarnation >> 16,
            modules,
            tls: self.tls.map(current),
            admin_tls: self.admin_tls.map(current),
            site: Some(me.site),
            generation,
            clock: Clock::system(),
        };
        let mut cluster = Cluster::launch(spec.clone(), run, link_to).map_err(ServeError::Start)?;
        warn_of_times_ahead(&cluster, &spec);
        let refused = Arc::new(Refused::default());
        let carrier = Carrier {
            topology: Arc::new(spec.topology()),
            identity: identity(&spec),
            spec,
            me,
            tls: peer_tls.clone(),
            incarnation,
            data: cluster.data.clone(),
            runs: cluster.found().iter().map(|found| found.run).collect(),
            network: cluster.network.clone(),
            links: links.clone(),
            refusals: Mutex::default(),
            refused: refused.clone(),
        };
        let running = carrier.start(peer).map_err(cannot_listen("peer"))?;
        cluster.here = Some(Here::new(me, links, peer_tls, refused, running));
        Ok((cluster, admin))
    }
}

/// Warns of data with times too far in the future, because other nodes refuse such a node.
fn warn_of_times_ahead(cluster: &Cluster, spec: &ClusterSpec) {
    let ahead_us = cluster.network.membership().hybrid_us().saturating_sub(clock_us());
    if Duration::from_micros(ahead_us) > spec.max_clock_skew {
        warn!(
            target: SITES,
            "the data holds times that are {} s ahead of this machine's clock, which is wrong or was wrong \
             earlier; other sites refuse this node while its times are too far ahead of theirs",
            ahead_us / 1_000_000
        );
    }
}

impl Cluster {
    /// Returns whether this node serves all of its site, accepts writes, and is not shutting down.
    pub fn is_ready(&self) -> bool {
        !self.network.is_draining()
            && self.network.serves()
            && !self.network.refuses_writes()
            && !self.network.membership().is_refused()
            && self.here.as_ref().is_none_or(Here::is_ready)
    }

    /// Completes, with the reason, when the site of this process no longer belongs to the cluster.
    /// The process should then stop.
    pub async fn expelled(&self) -> String {
        self.network.membership().expelled().await
    }

    /// Returns the node that refuses this one, and its reason, if no other site accepts this node.
    /// The node then rejects writes.
    pub fn refused(&self) -> Option<String> {
        self.network
            .membership()
            .refusal()
            .map(|(node, reason)| refused_by(&self.spec, node, &reason))
    }

    /// Returns the reason why this process rejects writes; `None` if it accepts them.
    pub fn refuses_writes(&self) -> Option<String> {
        self.network.why_no_writes()
    }

    /// Returns the status of this node and its site; `None` if this process is a whole cluster.
    pub async fn node_status(&self, detailed: bool) -> Option<NodeStatus> {
        let here = self.here.as_ref()?;
        let site = here.id.site;
        let (mut samples, mut missing_nodes) = (Vec::new(), Vec::new());
        for worker in self.network.workers_of(site) {
            let node = self.spec.node_of(worker).map_or(0, |id| u16::from(id.node) + 1);
            // If a node did not answer for one worker, send it no request for another.
            if missing_nodes.contains(&node) {
                continue;
            }
            match self.network.sample(worker, detailed).await {
                Some(sample) => samples.push(sample),
                None => missing_nodes.push(node),
            }
        }
        let of_speculative = samples.iter().filter_map(|it| it.speculative.as_ref());
        let of_speculative = of_speculative.map(SpeculativeStatus::progress);
        let progress: Vec<_> =
            samples.iter().map(|sample| sample.progress).chain(of_speculative).collect();
        let joining = samples.iter().any(|sample| !sample.serving).then(|| share(&progress));
        Some(NodeStatus {
            joining,
            cluster: self.spec.name.clone(),
            protocol: self.spec.protocol.name(),
            f: self.spec.f,
            survives: self.network.membership().survives(self.spec.f),
            site: self.spec.sites[site.index()].name.clone(),
            node: u16::from(here.id.node) + 1,
            ready: self.is_ready(),
            refused: self.refused(),
            takes_no_writes: self.refuses_writes().or_else(|| self.refused()),
            own_site: self.site_status(site.index(), &samples),
            missing_nodes,
            sites: self.reached_sites(here),
            memory: self.memory_status(),
        })
    }

    fn reached_sites(&self, here: &Here) -> Vec<ReachedSite> {
        let members = self.network.membership();
        let reach = |(site, name): (SiteId, String)| {
            let status = members.status(site).to_string();
            let links = here.links.iter().filter(|link| link.peer.site == site);
            let nodes: Vec<_> = links.map(|link| link.status()).collect();
            ReachedSite { name, status, reached: nodes.iter().all(|node| node.up), nodes }
        };
        let names = self.spec.sites.iter().map(|site| site.name.clone());
        SiteId::all(self.spec.sites.len()).zip(names).map(reach).collect()
    }

    /// Returns the status of the sites that run in this process, wholly or in part, and of the
    /// links.
    pub(crate) async fn measured(&self) -> (Vec<SiteStatus>, Vec<ReachedSite>) {
        match &self.here {
            None => (self.status(true).await.sites, Vec::new()),
            Some(here) => {
                let site = here.id.site.index();
                let own = self.site_status(site, &self.samples(site, true).await);
                (vec![own], self.reached_sites(here))
            }
        }
    }
}

/// Binds a port, on the host of `address` or on `bind`.
fn take_port(
    address: &HostPort,
    bind: Option<IpAddr>,
) -> std::io::Result<(SocketAddr, TcpListener)> {
    let found =
        match bind {
            Some(bind) => SocketAddr::new(bind, address.port),
            None => (address.host.as_str(), address.port).to_socket_addrs()?.next().ok_or_else(
                || std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address"),
            )?,
        };
    Ok((found, TcpListener::bind(found)?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use solera_config::sample::parse;
    use solera_links::{Card, Frame, Greeting, HEAD, Kind, write_frame};

    use super::*;

    fn refused(text: &str, site: &str, node: usize) -> String {
        Node::bind(parse(text), site, node, None).err().unwrap().to_string()
    }

    #[test]
    fn nodes_that_are_not_there_are_named_with_those_that_are() {
        let file = "\
[[site]]
name = 'eu'
[[site.node]]
resp = '127.0.0.1:1'
peer = '127.0.0.1:2'
admin = '127.0.0.1:3'
";
        for (text, site, node, reason) in [
            ("", "virginia", 1, "lists no nodes"),
            (file, "us", 1, "there is no site 'us'; the sites are eu"),
            (file, "eu", 2, "site eu has no node 2; it has node 1 alone"),
            (file, "EU", 0, "site eu has no node 0"),
        ] {
            let error = refused(text, site, node);
            assert!(error.contains(reason), "{error}");
        }
    }

    /// Sends bytes after an accepted hello of site us, and waits until the node closes the
    /// connection.
    fn send_as_us(spec: &ClusterSpec, port: u16, bytes: &[u8]) {
        let [eu, us] = [0, 1].map(|site| NodeId { site: SiteId(site), node: 0 });
        let hello = Greeting::Hello(Card::new(&identity(spec), us, eu, 7, clock_us()));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&hello.encode()).unwrap();
        let mut head = [0; HEAD];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; Greeting::body_length(&head).unwrap()];
        stream.read_exact(&mut body).unwrap();
        assert!(matches!(Greeting::decode(&head, &body), Ok(Greeting::Welcome(_))));
        stream.write_all(bytes).unwrap();
        // The connection may also be reset.
        let _ = stream.read_to_end(&mut Vec::new());
    }

    #[tokio::test]
    async fn refused_handshakes_and_frames_are_counted() {
        let free: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = free.iter().map(|it| it.local_addr().unwrap().port()).collect();
        drop(free);
        let text = format!(
            "[[site]]\nname = 'eu'\n[[site.node]]\nresp = '127.0.0.1:{}'\npeer = '127.0.0.1:{}'\n\
             admin = '127.0.0.1:{}'\n[[site]]\nname = 'us'\n[[site.node]]\nresp = '127.0.0.9:1'\n\
             peer = '127.0.0.9:2'\nadmin = '127.0.0.9:3'\n",
            ports[0], ports[1], ports[2]
        );
        let spec = parse(&text);
        let (cluster, _admin) =
            Node::bind(spec.clone(), "eu", 1, None).unwrap().start(None, None).unwrap();

        let hello = |spec: &ClusterSpec| {
            let [eu, us] = [0, 1].map(|site| NodeId { site: SiteId(site), node: 0 });
            Greeting::Hello(Card::new(&identity(spec), us, eu, 7, clock_us())).encode()
        };
        let mut other_version = hello(&spec);
        other_version[9] += 1;
        let mut damaged = hello(&spec);
        *damaged.last_mut().unwrap() ^= 1;
        let space = "[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'eventual'\n";
        let other_spaces = hello(&parse(&format!("{text}{space}")));
        let handshakes = [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "", "no_greeting"),
            (&other_version, "", "release"),
            (&damaged, "", "damaged"),
            (&other_spaces, "us", "settings"),
        ];
        for (bytes, ..) in handshakes {
            let mut stream = TcpStream::connect(("127.0.0.1", ports[1])).unwrap();
            stream.write_all(bytes).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let frame = |kind, body: &[u8]| {
            let mut bytes = Vec::new();
            write_frame(&mut bytes, Frame { kind, number: 1, body });
            bytes
        };
        let mut flipped = frame(Kind::Ping, b"");
        flipped[4] ^= 1;
        let frames = [
            (vec![0; 64], "length"),
            (flipped, "damaged"),
            (frame(Kind::Ack, b""), "kind"),
            (frame(Kind::Ask, b"\xff"), "content"),
            (frame(Kind::Messages, &[0, 0, 99, 1]), "protocol"),
        ];
        for (bytes, _) in &frames {
            send_as_us(&spec, ports[1], bytes);
        }
        let expected = |counts: Vec<(&str, &'static str)>| {
            let counts = counts.into_iter();
            let mut counts: Vec<_> =
                counts.map(|(site, reason)| (site.to_owned(), reason, 1)).collect();
            counts.sort();
            counts
        };
        let handshakes = expected(handshakes.map(|(_, site, reason)| (site, reason)).to_vec());
        let frames = expected(frames.map(|(_, reason)| ("us", reason)).to_vec());
        // A connection ends before its end is counted.
        for _ in 0..1000 {
            if cluster.refused_of_peers().unwrap() == [&*handshakes, &*frames] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(cluster.refused_of_peers().unwrap(), [handshakes, frames]);
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let text = format!(
            "[[site]]\nname = 'eu'\n[[site.node]]\nresp = '127.0.0.1:{port}'\n\
             peer = 'localhost:{port}'\nadmin = '[::1]:{port}'\n"
        );
        let expected =
            format!("node 1 of site eu cannot listen on 127.0.0.1:{port} (resp): the port is");
        let error = refused(&text, "eu", 1);
        assert!(error.contains(&expected), "{error}");
    }
}
