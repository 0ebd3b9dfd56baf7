//! Decides which addresses a workflow may call: public internet addresses and those the settings allow.
//!
//! The author of a workflow, or a model that fills a URL, must not reach the worker's own network: databases, consoles,
//! or the metadata service with a machine's keys. Every address that is not clearly public is refused, also when it is
//! embedded in another form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// An address that must not be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{class}; http.allow names what the guard lets through (http.guard)", shown(.host, .address.as_ref()))]
pub struct Blocked {
    /// The requested host.
    pub host: String,
    /// The resolved address; `None` when only the name was checked.
    pub address: Option<IpAddr>,
    /// The kind of address, such as "a loopback address".
    pub class: &'static str,
}

fn shown(host: &str, address: Option<&IpAddr>) -> String {
    match address {
        Some(address) if address.to_string() != host => format!("{host} is at {address}, "),
        Some(_) | None => format!("{host} is "),
    }
}

/// The guard and its exceptions.
#[derive(Debug, Default)]
pub struct Guard {
    on: bool,
    hosts: Vec<HostPattern>,
    networks: Vec<Network>,
}

#[derive(Debug, PartialEq, Eq)]
enum HostPattern {
    Exactly(String),
    /// Matches subdomains, not the domain itself. Begins with a dot.
    Below(String),
}

/// A network: addresses with the same leading bits.
#[derive(Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Guard {
    /// Creates a guard with exceptions: hosts, `*.domain`, addresses, and networks as `address/bits`.
    ///
    /// # Errors
    /// The message for an exception that cannot be parsed.
    pub fn new(on: bool, allow: &[String]) -> Result<Self, String> {
        let mut guard = Self { on, ..Self::default() };
        for entry in allow.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty()) {
            match entry.split_once('/') {
                Some((address, bits)) => {
                    guard.networks.push(network(address, bits).ok_or_else(|| wrong(entry))?)
                }
                None => guard.except(entry)?,
            }
        }
        Ok(guard)
    }

    fn except(&mut self, entry: &str) -> Result<(), String> {
        if let Ok(address) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            self.networks.push(Network { address, bits });
            return Ok(());
        }
        let host = normal(entry);
        let is_host = |host: &str| {
            !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        };
        match host.strip_prefix('*') {
            Some(domain) if domain.starts_with('.') && is_host(domain) => {
                self.hosts.push(HostPattern::Below(domain.into()));
            }
            None if is_host(&host) => self.hosts.push(HostPattern::Exactly(host)),
            Some(_) | None => return Err(wrong(entry)),
        }
        Ok(())
    }

    /// Returns true if a host name is an exception, whatever its address.
    pub fn lets_host(&self, host: &str) -> bool {
        let host = normal(host);
        self.hosts.iter().any(|pattern| match pattern {
            HostPattern::Exactly(known) => *known == host,
            HostPattern::Below(domain) => host.ends_with(domain.as_str()),
        })
    }

    /// Checks the address of a host.
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), Blocked> {
        if !self.on || self.networks.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        match class(address) {
            Some(class) => Err(Blocked { host: host.to_owned(), address: Some(address), class }),
            None => Ok(()),
        }
    }

    /// Checks an address written in a URL; names are checked when they are resolved. The URL parser has already
    /// normalized other number formats.
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn check_url(&self, url: &Url) -> Result<(), Blocked> {
        let Some(host) = url.host_str() else { return Ok(()) };
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => self.check(host.trim_matches(['[', ']']), address),
            Err(_) => Ok(()),
        }
    }

    /// Refuses a name for a reason besides its address: the proxy must not be called through itself.
    pub(crate) fn refuse(&self, host: &str, class: &'static str) -> Result<(), Blocked> {
        if !self.on || self.lets_host(host) {
            return Ok(());
        }
        Err(Blocked { host: host.to_owned(), address: None, class })
    }
}

/// Normalizes a name for comparison: lower case, no final dot.
fn normal(host: &str) -> String {
    host.trim_end_matches('.').to_lowercase()
}

fn wrong(entry: &str) -> String {
    format!("{entry:?} is not a host, *.domain, an address, or a network such as 10.1.0.0/16")
}

fn network(address: &str, bits: &str) -> Option<Network> {
    let address: IpAddr = address.trim().parse().ok()?;
    let bits: u32 = bits.trim().parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some(Network { address, bits })
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        // Treat an IPv4-mapped IPv6 address as its IPv4 address.
        let address = address.to_canonical();
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - self.bits;
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - self.bits;
                own.to_bits().checked_shr(shift) == other.to_bits().checked_shr(shift)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Returns the kind of a non-public address, or `None` for a public one.
pub fn class(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

/// Clouds serve a machine's keys at these addresses.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(100, 100, 100, 200)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn class_v4(address: Ipv4Addr) -> Option<&'static str> {
    if METADATA_V4.contains(&address) {
        return Some("a cloud's metadata address");
    }
    Some(match address.octets() {
        [0, ..] => "an address of \"this\" network",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "a carrier-grade NAT address",
        [127, ..] => "a loopback address",
        [169, 254, ..] => "a link-local address",
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] => "a reserved address",
        [198, 18..=19, ..] => "an address for benchmarks",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved or broadcast address",
        _ => return None,
    })
}

fn class_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address == METADATA_V6 {
        return Some("a cloud's metadata address");
    }
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => "the unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        // These forms embed an IPv4 address (mapped, translated, NAT64, 6to4); check that address.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => return class_v4(v4(high, low)),
        [0, 0, 0, 0, 0, 0, ..] => "an IPv4-compatible address",
        [0x64, 0xff9b, ..] => "a local NAT64 address",
        // Teredo embeds two addresses, and no internet server uses it.
        [0x2001, 0, ..] => "a Teredo address",
        [0x2001, 0x1..=0x1ff, ..] => "a reserved address",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "a documentation address",
        [_, _, _, _, 0x0 | 0x200, 0x5efe, high, low] if class_v4(v4(high, low)).is_some() => {
            "an ISATAP address"
        }
        [0xfc00..=0xfdff, ..] => "a private (unique local) address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a site-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "an address outside of the public range",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_have_no_class() {
        for (address, part) in [
            ("127.0.0.1", "loopback"),
            ("127.9.9.9", "loopback"),
            ("0.0.0.0", "this"),
            ("10.0.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "carrier-grade"),
            ("169.254.1.1", "link-local"),
            ("169.254.169.254", "metadata"),
            ("100.100.100.200", "metadata"),
            ("192.0.2.1", "reserved"),
            ("198.18.0.1", "benchmarks"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:0:10.0.0.1", "private"),
            ("::7f00:1", "IPv4-compatible"),
            ("64:ff9b::a9fe:a9fe", "metadata"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b:1::1", "local NAT64"),
            ("2002:7f00:1::", "loopback"),
            ("2002:a00:1::1", "private"),
            ("2001::1", "Teredo"),
            ("2001:db8::1", "documentation"),
            ("fd00:ec2::254", "metadata"),
            ("fc00::1", "unique local"),
            ("fe80::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
            ("2a00::5efe:10.0.0.1", "ISATAP"),
            ("5f00::1", "outside"),
            ("100::1", "outside"),
        ] {
            let class = class(address.parse().unwrap());
            assert!(class.is_some_and(|class| class.contains(part)), "{address}: {class:?}");
        }
        for address in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert_eq!(class(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn addresses_in_odd_spellings_are_what_they_are() {
        let guard = Guard::new(true, &[]).unwrap();
        for url in [
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://[::ffff:7f00:1]/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://1.1.1.1@127.0.0.1/",
            "http://0/",
            "http://①②⑦.⓪.⓪.①/",
            "https://017700000001/",
        ] {
            let parsed = Url::parse(url).unwrap();
            assert!(guard.check_url(&parsed).is_err(), "{url} {:?}", parsed.host());
        }
    }

    #[test]
    fn exceptions_are_hosts_domains_addresses_and_networks() {
        let allow = ["db.internal", "*.corp.example", "10.1.0.0/16", "127.0.0.1", "fd00:1::/32", " "]
            .map(String::from);
        let guard = Guard::new(true, &allow).unwrap();
        for (host, is) in [
            ("DB.internal.", true),
            ("x.db.internal", false),
            ("a.b.corp.example", true),
            ("corp.example", false),
            ("evilcorp.example", false),
        ] {
            assert_eq!(guard.lets_host(host), is, "{host}");
        }
        for (address, is) in [
            ("10.1.255.1", true),
            ("10.2.0.1", false),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.2", false),
            ("fd00:1::9", true),
            ("fd00:2::9", false),
        ] {
            assert_eq!(guard.check("h", address.parse().unwrap()).is_ok(), is, "{address}");
        }
        for entry in ["10.0.0.0/33", "*", "*corp", "http://x", "a b", "x/8"] {
            assert!(Guard::new(true, &[entry.into()]).is_err(), "{entry}");
        }
        assert!(
            Guard::new(true, &["0.0.0.0/0".into()]).unwrap().check("h", "10.0.0.1".parse().unwrap()).is_ok()
        );
    }

    #[test]
    fn a_refusal_names_the_class_and_the_settings() {
        let guard = Guard::new(true, &[]).unwrap();
        let said = guard.check("evil.example", "10.0.0.1".parse().unwrap()).unwrap_err().to_string();
        assert_eq!(
            said,
            "evil.example is at 10.0.0.1, a private address; http.allow names what the guard lets through (http.guard)"
        );
        assert!(Guard::new(false, &[]).unwrap().check("h", "10.0.0.1".parse().unwrap()).is_ok());
    }
}
