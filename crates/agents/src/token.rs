//! Tokens, by which whoever was answered shows that he was, and nonces that nobody can guess.
//!
//! A token is a keyed hash of nonce, address and second, with the second's low bits in the clear.
//! The answerer keeps nothing: what comes back is hashed again ([htrae 0.8]). Whoever does not
//! receive what is sent to an address knows no token for it, and has 2^48 to guess from.

use cavy_core::{Instant, Span};
use ring::hmac;
use std::net::{IpAddr, SocketAddr};

const SECOND_NS: u64 = 1_000_000_000;
const HASH_BITS: u32 = 48;

/// What tokens and nonces of one agent are made with; drawn when it starts.
#[derive(Debug)]
pub struct Tokens {
    key: hmac::Key,
    counter: u64,
}

impl Tokens {
    /// With this secret.
    pub fn new(secret: &[u8; 32]) -> Tokens {
        Tokens { key: hmac::Key::new(hmac::HMAC_SHA256, secret), counter: 0 }
    }

    /// A nonce. Others do not tell the next one.
    pub fn nonce(&mut self) -> u64 {
        self.counter += 1;
        let mut about = [b'n'; 9];
        about[1..].copy_from_slice(&self.counter.to_be_bytes());
        self.hash(&about)
    }

    fn hash(&self, about: &[u8]) -> u64 {
        let tag = hmac::sign(&self.key, about);
        let first = tag.as_ref().first_chunk::<8>();
        u64::from_be_bytes(*first.unwrap_or(&[0; 8]))
    }

    fn of(&self, nonce: u64, to: SocketAddr, second: u64) -> u64 {
        let ip = match to.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut about = [b't'; 1 + 8 + 16 + 2 + 8];
        about[1..9].copy_from_slice(&nonce.to_be_bytes());
        about[9..25].copy_from_slice(&ip.octets());
        about[25..27].copy_from_slice(&to.port().to_be_bytes());
        about[27..].copy_from_slice(&second.to_be_bytes());
        (second & 0xffff) << HASH_BITS | self.hash(&about) >> (64 - HASH_BITS)
    }

    /// The token for whoever asked with `nonce` from `to`.
    pub fn token(&self, nonce: u64, to: SocketAddr, now: Instant) -> u64 {
        self.of(nonce, to, now.as_ns() / SECOND_NS)
    }

    /// Was this token given to `from` for `nonce`, in the last `lifetime`? To the second.
    pub fn is_good(
        &self,
        token: u64,
        nonce: u64,
        from: SocketAddr,
        now: Instant,
        lifetime: Span,
    ) -> bool {
        let second = now.as_ns() / SECOND_NS;
        let age = second.wrapping_sub(token >> HASH_BITS) & 0xffff;
        age <= lifetime.as_ns() / SECOND_NS
            && second >= age
            && self.of(nonce, from, second - age) == token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn s(s: u64) -> Instant {
        Instant::from_ns(s * SECOND_NS)
    }

    #[test]
    fn a_token_is_good_for_its_nonce_address_and_time_only() {
        let tokens = Tokens::new(&[1; 32]);
        let lifetime = Span::from_ms(10_000);
        let token = tokens.token(7, at(1), s(100));
        for (nonce, from, now, good) in [
            (7, at(1), s(100), true),
            (7, at(1), s(110), true),
            (7, at(1), s(111), false),
            (7, at(1), s(99), false),
            (7, at(1), s(100 + 65_536), false),
            (8, at(1), s(100), false),
            (7, at(2), s(100), false),
        ] {
            assert_eq!(tokens.is_good(token, nonce, from, now, lifetime), good, "{nonce} {from}");
        }
        for bit in 0..64 {
            assert!(!tokens.is_good(token ^ (1 << bit), 7, at(1), s(100), lifetime), "{bit}");
        }
        assert_ne!(Tokens::new(&[2; 32]).token(7, at(1), s(100)), token);
        // Just after the start of the machine's clock.
        let early = tokens.token(7, at(1), s(0));
        assert!(tokens.is_good(early, 7, at(1), s(3), lifetime));
    }

    #[test]
    fn nonces_differ() {
        let mut tokens = Tokens::new(&[1; 32]);
        let all: std::collections::BTreeSet<u64> = (0..1_000).map(|_| tokens.nonce()).collect();
        assert_eq!(all.len(), 1_000);
    }
}
