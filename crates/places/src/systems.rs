//! Autonomous systems by the longest prefix that holds an address, and which of them are not too
//! large ([htrae 2.6]).

use cavy_coords::systems::{ADDRESSES_MAX, Corrected};
use maxminddb::{Reader, WithinOptions, geoip2};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What every database of MaxMind's format has near its end, before what it says of itself.
pub(crate) const MARK: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// Numbers of systems by prefix.
#[derive(Debug)]
pub struct Systems {
    /// By length and first address, both as of IPv6.
    prefixes: BTreeMap<(u8, u128), u32>,
    lengths: Vec<u8>,
    corrected: Corrected,
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn first(bits: u128, length: u8) -> u128 {
    let host = 128 - u32::from(length);
    bits.checked_shr(host).and_then(|high| high.checked_shl(host)).unwrap_or(0)
}

/// Reads `192.0.2.0/24`; length and first address.
pub fn prefix(text: &str) -> Option<(u8, u128)> {
    let (ip, length) = text.split_once('/')?;
    let (ip, length): (IpAddr, u8) = (ip.parse().ok()?, length.parse().ok()?);
    let length = match ip {
        IpAddr::V4(_) => length.checked_add(96)?,
        IpAddr::V6(_) => length,
    };
    (length <= 128).then(|| (length, first(bits(ip), length)))
}

impl Systems {
    /// Reads a database in MaxMind's format, or lines `PREFIX NUMBER`.
    ///
    /// # Errors
    /// The line, or what is wrong with the database.
    pub fn read(bytes: Vec<u8>) -> Result<Systems, String> {
        let is_database = bytes.windows(MARK.len()).any(|part| part == MARK);
        let prefixes = if is_database { database(bytes)? } else { lines(&bytes)? };
        let mut lengths: Vec<u8> = prefixes.keys().map(|(length, _)| *length).collect();
        lengths.dedup();
        lengths.reverse();
        // Addresses of IPv4 that a system announces; of those within another prefix the longer one
        // counts too, which makes a system no smaller than it is.
        let mut announced: BTreeMap<u32, u64> = BTreeMap::new();
        for ((length, _), number) in prefixes.iter().filter(|((length, at), _)| {
            *length >= 96 && Ipv6Addr::from(*at).to_ipv4_mapped().is_some()
        }) {
            *announced.entry(*number).or_default() += 1 << (128 - length).min(32);
        }
        let alone = prefixes.values().map(|number| (*number, 0));
        let mut sizes: BTreeMap<u32, u64> = alone.collect();
        sizes.extend(announced);
        let corrected = Corrected::by_addresses(sizes, ADDRESSES_MAX);
        Ok(Systems { prefixes, lengths, corrected })
    }

    /// The number of the longest prefix that holds `ip`; 0 for none.
    pub fn number(&self, ip: IpAddr) -> u32 {
        let bits = bits(ip);
        let found = self
            .lengths
            .iter()
            .find_map(|length| self.prefixes.get(&(*length, first(bits, *length))));
        found.copied().unwrap_or(0)
    }

    /// The same; 0 for systems that are very large too.
    pub fn effective(&self, ip: IpAddr) -> u32 {
        self.corrected.effective(self.number(ip))
    }
}

fn lines(bytes: &[u8]) -> Result<BTreeMap<(u8, u128), u32>, String> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| "it is neither text nor a database".to_string())?;
    let mut all = BTreeMap::new();
    for (at, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split([' ', '\t', ',']).filter(|w| !w.is_empty()).collect();
        let row = match words[..] {
            [net, number] => prefix(net).zip(number.trim_start_matches("AS").parse().ok()),
            _ => None,
        };
        let wrong =
            || format!("line {at} is {line:?}, but must be PREFIX NUMBER: 192.0.2.0/24 64500");
        let (net, number) = row.ok_or_else(wrong)?;
        all.insert(net, number);
    }
    Ok(all)
}

fn database(bytes: Vec<u8>) -> Result<BTreeMap<(u8, u128), u32>, String> {
    let wrong = |error: maxminddb::MaxMindDbError| error.to_string();
    let reader = Reader::from_source(bytes).map_err(wrong)?;
    let mut all = BTreeMap::new();
    for one in reader.networks(WithinOptions::default()).map_err(wrong)? {
        let one = one.map_err(wrong)?;
        let Some(record) = one.decode::<geoip2::Asn<'_>>().map_err(wrong)? else { continue };
        let net = one.network().map_err(wrong)?;
        let (mut length, mut ip) = (net.prefix(), net.ip());
        // IPv4 lies at ::/96 of a database of IPv6.
        if let IpAddr::V6(v6) = ip
            && length >= 96
            && v6.octets()[..12] == [0; 12]
        {
            let [.., a, b, c, d] = v6.octets();
            ip = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            length -= 96;
        }
        let length = if ip.is_ipv4() { length + 96 } else { length };
        if let Some(number) = record.autonomous_system_number {
            all.insert((length, first(bits(ip), length)), number);
        }
    }
    Ok(all)
}
