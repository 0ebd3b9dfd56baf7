//! Lists of IP addresses and networks, as settings name them.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of networks; a single address is a network of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Parses entries such as `10.1.0.0/16`, `192.0.2.7` and `fd00::/8`; skips blank ones.
    ///
    /// # Errors
    /// A message that names the entry that is neither an address nor a network.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let entries = entries.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty());
        let network = |entry: &str| {
            let single = || entry.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
            entry
                .parse::<IpNet>()
                .or_else(|_| single())
                .map_err(|_| format!("{entry:?} is neither an address nor a network such as 10.1.0.0/16"))
        };
        entries.map(network).collect::<Result<_, _>>().map(Self)
    }

    /// True when one of the networks contains the address.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_read_and_anything_else_is_named() {
        let parse =
            |entries: &[&str]| Networks::parse(&entries.iter().map(ToString::to_string).collect::<Vec<_>>());
        let some = parse(&["10.1.0.0/16", " 192.0.2.7", "fd00::/8", ""]).unwrap();
        for (address, is_one) in [
            ("10.1.9.9", true),
            ("10.2.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::ffff:10.1.0.1", true),
            ("fd00::1", true),
            ("::1", false),
        ] {
            assert_eq!(some.contain(address.parse().unwrap()), is_one, "{address}");
        }
        assert!(parse(&["proxy.internal"]).unwrap_err().contains("\"proxy.internal\""));
        assert!(parse(&["10.0.0.0/33"]).is_err());
        assert!(!parse(&[]).unwrap().contain("127.0.0.1".parse().unwrap()));
    }
}
