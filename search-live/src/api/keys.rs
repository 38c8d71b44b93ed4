//! Who may ask: API keys and passwords, as Elasticsearch's clients send them.

use super::error::Error;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// What clients may show. Where there is none, nobody is asked.
#[derive(Clone, Default)]
pub struct Keys {
    /// Each `name:secret`, as headers carry it.
    shown: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.shown.len())
    }
}

/// Why `name:secret` is none, if it is not.
///
/// # Errors
/// A sentence.
pub fn check(key: &str) -> Result<(), String> {
    match key.split_once(':') {
        Some((name, secret)) if !name.is_empty() && secret.len() >= 16 => Ok(()),
        Some((name, _)) if !name.is_empty() => {
            Err(format!("the secret of api_keys `{name}` is shorter than 16 characters"))
        }
        _ => Err("each of api_keys is `name:secret`".into()),
    }
}

impl Keys {
    /// Of `name:secret` each.
    pub fn new(all: &[String]) -> Keys {
        Keys { shown: all.iter().map(|key| BASE64_STANDARD.encode(key).into_bytes()).collect() }
    }

    /// Whether a request with this header `Authorization` may go on.
    ///
    /// # Errors
    /// 401, in Elasticsearch's words.
    pub fn admit(&self, header: Option<&[u8]>) -> Result<(), Error> {
        if self.shown.is_empty() {
            return Ok(());
        }
        let refused = |why: &str| {
            Err(Error::new(401, "security_exception", why).with(
                "header",
                serde_json::json!({"WWW-Authenticate": ["Basic realm=\"security\"", "ApiKey"]}),
            ))
        };
        let Some(header) = header else {
            return refused("missing authentication credentials for REST request");
        };
        let (scheme, rest) = match header.iter().position(|byte| *byte == b' ') {
            Some(at) => (&header[..at], header[at + 1..].trim_ascii()),
            None => (header, [].as_slice()),
        };
        // The same name and secret serve as an API key and as a name with a password.
        let known = scheme.eq_ignore_ascii_case(b"apikey") || scheme.eq_ignore_ascii_case(b"basic");
        // All are compared to the end, so that time does not tell which was nearly right.
        let fits = self.shown.iter().fold(false, |fits, own| same(own, rest) | fits);
        match known && fits {
            true => Ok(()),
            false => refused("unable to authenticate with provided credentials"),
        }
    }
}

fn same(own: &[u8], other: &[u8]) -> bool {
    let differ = own.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0 && own.len() == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_asked_for_and_compared_whole() {
        let keys = Keys::new(&["app:0123456789abcdef".to_string()]);
        let shown = BASE64_STANDARD.encode("app:0123456789abcdef");
        let of = |scheme: &str, text: &str| keys.admit(Some(format!("{scheme} {text}").as_bytes()));
        assert!(of("ApiKey", &shown).is_ok() && of("basic", &shown).is_ok());
        let wrong = BASE64_STANDARD.encode("app:0123456789abcdee");
        let longer = BASE64_STANDARD.encode("app:0123456789abcdefg");
        for (scheme, text) in
            [("ApiKey", wrong.as_str()), ("ApiKey", &longer), ("Bearer", &shown), ("ApiKey", "")]
        {
            assert_eq!(of(scheme, text).map_err(|error| error.status), Err(401), "{scheme} {text}");
        }
        assert_eq!(keys.admit(None).map_err(|error| error.status), Err(401));
        assert!(Keys::default().admit(None).is_ok());
    }

    #[test]
    fn a_short_secret_is_named() {
        assert!(check("app:0123456789abcdef").is_ok());
        assert!(check("app:short").expect_err("short").contains("`app`"));
        assert!(check("nothing").is_err() && check(":0123456789abcdef").is_err());
    }
}
