//! SOLERA.LEADERS: from which sites strong transactions are led, and moving that.

use solera_resp::Arguments;
use solera_time::SiteId;

use crate::session::Session;
use crate::worker::Unreachable;

/// SOLERA.LEADERS [MOVE site]: how many partitions each site leads, as this site knows; or asks a site to
/// lead all.
pub(crate) async fn leaders(session: &mut Session, arguments: &Arguments<'_>) {
    let worker = session.worker.clone();
    let spec = worker.spec.clone();
    match arguments.len() {
        1 => {}
        3 if arguments.get(1).eq_ignore_ascii_case(b"move") => {
            let wanted = arguments.get(2);
            let named = |name: &str| name.as_bytes().eq_ignore_ascii_case(wanted);
            let Some(site) = spec.sites.iter().position(|site| named(&site.name)) else {
                let names: Vec<&str> = spec.sites.iter().map(|site| site.name.as_str()).collect();
                let (wanted, names) = (String::from_utf8_lossy(wanted), names.join(", "));
                return session
                    .fail(format!("ERR there is no site '{wanted}'; the sites are {names}"));
            };
            let site_id = SiteId(site as u8);
            if !worker.with(|replica| replica.status().members().is_member(site_id)) {
                let name = worker.site_name(site_id);
                return session.fail(format!("ERR site {name} takes no part, so it cannot lead"));
            }
            let now = worker.now();
            worker.with(|replica| replica.move_leaders(now, site_id));
            return session.out.simple("OK");
        }
        _ => return session.fail("ERR syntax error"),
    }
    let mut led = vec![0u64; spec.sites.len()];
    for other in worker.network.workers_of(worker.address.site) {
        let Some(sample) = worker.network.sample(other, false).await else {
            return session.fail(Unreachable(worker.node_name(other)).to_string());
        };
        led.iter_mut().zip(&sample.leads).for_each(|(sum, more)| *sum += more);
    }
    session.out.map(led.len());
    for (site, led) in SiteId::all(led.len()).zip(led) {
        session.out.bulk(worker.site_name(site).as_bytes());
        session.out.integer(led as i64);
    }
}
