//! Which shard a key is on.

use crate::datum::row;
use cavy_txn::{Layout, Shard};

/// Placement of keys by their names: `{eu}` anywhere in a key puts it into region `eu`, `{eu-1}` on
/// the second shard there; any other `{tag}` only keeps keys of one tag together. What names no
/// region is in the region of the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// Who is where.
    pub layout: Layout,
    /// Names of regions, in order.
    pub regions: Vec<String>,
    /// The region of keys that name none.
    pub default_region: usize,
}

impl Places {
    /// Where `key` is.
    pub fn shard(&self, key: &[u8]) -> Shard {
        let tag = tag(key);
        let (region, shard) = tag.and_then(|tag| self.named(tag)).unwrap_or((None, None));
        let each = self.layout.shards_per_region;
        // Keys of a tag that names no region stay together; those of a region spread in it.
        let hashed = match (region, tag) {
            (None, Some(tag)) => tag,
            _ => key,
        };
        let within = shard.unwrap_or_else(|| (row(hashed).row % u64::from(each)) as u32);
        let region = region.unwrap_or(self.default_region) as u32;
        Shard(region * each + within)
    }

    fn named(&self, tag: &[u8]) -> Option<(Option<usize>, Option<u32>)> {
        let tag = std::str::from_utf8(tag).ok()?;
        if let Some(region) = self.regions.iter().position(|name| name == tag) {
            return Some((Some(region), None));
        }
        let (name, shard) = tag.rsplit_once('-')?;
        let region = self.regions.iter().position(|known| known == name)?;
        let shard = shard.parse().ok().filter(|shard| *shard < self.layout.shards_per_region)?;
        Some((Some(region), Some(shard)))
    }
}

/// What stands between the first `{` and the next `}`, if it is anything: Redis's hash tag.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_where_their_tags_say() {
        let regions = ["eu", "us-1", "asia"].map(str::to_string).to_vec();
        let places = Places { layout: Layout::new(3, 2), regions, default_region: 1 };
        let region = |key: &str| places.shard(key.as_bytes()).0 / 2;
        assert_eq!((region("{eu}:1"), region("x{asia}"), region("plain")), (0, 2, 1));
        assert_eq!((region("{us-1}:1"), region("{nowhere}"), region("{}{eu}")), (1, 1, 1));
        assert_eq!(places.shard(b"{eu-1}:77"), Shard(1));
        assert_eq!(places.shard(b"{us-1-0}:77"), Shard(2));
        assert_eq!(region("{eu-2}:1"), 1, "there is no such shard");
        assert_eq!(places.shard(b"{cart:7}:a"), places.shard(b"b{cart:7}"));
        let spread: std::collections::BTreeSet<_> =
            (0..50).map(|n| places.shard(format!("{{eu}}:{n}").as_bytes())).collect();
        assert_eq!(spread.len(), 2);
    }
}
