//! Which servers the three kinds of trust accept, and the reasons for the others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use solera_tls::{Files, Refused, Tls};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new() -> Authority {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Both have the same name.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = format!("solera-tls-{}-{number}.pem", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, issuer.pem()).unwrap();
        Authority { issuer, file }
    }

    /// Returns the files that trust the authority.
    fn files(&self) -> Files {
        Files { authorities: self.file.clone(), own: None }
    }

    /// Creates a server whose certificate is for this host, valid in these years.
    fn server(&self, host: &str, years: [i32; 2]) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        [params.not_before, params.not_after] = years.map(|year| rcgen::date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key);
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Connects to `here`, and returns the reason of a failure.
async fn outcome(tls: &Tls, server: &TlsAcceptor) -> String {
    let (near, far) = tokio::io::duplex(100_000);
    let (connected, _) = tokio::join!(tls.connect("here", near), server.accept(far));
    match connected {
        Ok(_) => "trusted".to_owned(),
        Err(error) => {
            let refused: &Refused = error.get_ref().unwrap().downcast_ref().unwrap();
            assert!(!refused.speaks_no_tls());
            error.to_string()
        }
    }
}

#[tokio::test]
async fn servers_are_trusted_as_far_as_somebody_asks_for_it() {
    let (ca, other) = (Authority::new(), Authority::new());
    let now = [2000, 2100];
    let [right, elsewhere] = ["here", "elsewhere"].map(|host| ca.server(host, now));
    let [old, early] = [[2000, 2001], [2090, 2100]].map(|years| ca.server("here", years));
    let strange = other.server("here", now);
    let full = ca.files().tls().unwrap();
    let any = ca.files().tls_for_any_host().unwrap();
    let unsigned =
        format!("its certificate is not signed by an authority in {}", ca.file.display());
    let (expired, future) = ("its certificate has expired", "its certificate is not valid yet");
    for (server, by_host, by_authority) in [
        (&right, "trusted", "trusted"),
        (&elsewhere, "its certificate is not for here, but for elsewhere", "trusted"),
        (&old, expired, expired),
        (&early, future, future),
        (&strange, &*unsigned, &*unsigned),
    ] {
        assert_eq!(outcome(&full, server).await, by_host);
        assert_eq!(outcome(&any, server).await, by_authority);
        assert_eq!(outcome(&Tls::unverified(), server).await, "trusted");
    }
}

#[tokio::test]
async fn a_server_without_tls_gets_an_error_of_its_own() {
    let (near, mut far) = tokio::io::duplex(100_000);
    far.write_all(b"-ERR unknown command\r\n").await.unwrap();
    let error = Tls::unverified().connect("here", near).await.unwrap_err();
    let refused: &Refused = error.get_ref().unwrap().downcast_ref().unwrap();
    assert!(refused.speaks_no_tls());
    assert_eq!(error.to_string(), "it does not speak TLS there");
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let ca = Authority::new();
    let missing = PathBuf::from("/none/such.pem");
    let error = |files: Files| files.tls().unwrap_err().to_string();
    let lone = Files { authorities: missing.clone(), own: None };
    assert!(error(lone).starts_with("/none/such.pem cannot be used: "));
    let keyless = Files { own: Some((ca.file.clone(), missing)), ..ca.files() };
    assert!(error(keyless).starts_with("/none/such.pem cannot be used: "));
}
