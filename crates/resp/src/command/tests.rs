use super::*;
use crate::reply::Version;

/// Carries out lines of words on one sheet, and shows the answers.
fn talk(sheet: &mut Sheet, lines: &[&str]) -> String {
    let mut shown = String::new();
    for line in lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = find(words[0]).expect("a command").run(&words, sheet);
        let mut bytes = Vec::new();
        reply.write(Version::Two, &mut bytes);
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", " ");
        shown += &format!("{line} -> {}\n", text.trim_end());
    }
    shown
}

fn sheet(keys: &[&str]) -> Sheet {
    let mut sheet = Sheet::new(1_000_000);
    for key in keys {
        sheet.lend(key.as_bytes(), Datum::default());
    }
    sheet
}

#[track_caller]
fn says(keys: &[&str], lines: &[(&str, &str)]) {
    let words: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let expected: String =
        lines.iter().map(|(line, reply)| format!("{line} -> {reply}\n")).collect();
    assert_eq!(talk(&mut sheet(keys), &words), expected);
}

#[test]
fn commands_are_in_order_and_found_in_any_case() {
    assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert_eq!(find(b"lRange").map(|spec| spec.name), Some("LRANGE"));
    assert!(find(b"NOTHING").is_none());
}

#[test]
fn strings_are_as_in_redis() {
    says(
        &["a", "b", "l"],
        &[
            ("GET a", "$-1"),
            ("SET a 10", "+OK"),
            ("SET a 11 NX", "$-1"),
            ("SET a 12 XX GET", "$2 10"),
            ("INCRBY a 5", ":17"),
            ("DECR a", ":16"),
            ("DECRBY a -9223372036854775808", "-ERR value is not an integer or out of range"),
            ("INCRBY a 9223372036854775807", "-ERR increment or decrement would overflow"),
            ("APPEND a xy", ":4"),
            ("INCR a", "-ERR value is not an integer or out of range"),
            ("GETRANGE a -3 -2", "$2 6x"),
            ("SETRANGE a 6 z", ":7"),
            ("STRLEN a", ":7"),
            ("SETNX a 1", ":0"),
            ("GETDEL a", "$7 16xy\0\0z"),
            ("EXISTS a b a", ":0"),
            ("MSET a 1 b 2", "+OK"),
            ("MGET a b l", "*3 $1 1 $1 2 $-1"),
            ("MSETNX b 3 l 4", ":0"),
            ("RENAME a l", "+OK"),
            ("RENAME a l", "-ERR no such key"),
            ("COPY l b", ":0"),
            ("COPY l b REPLACE", ":1"),
            ("GETSET b 9", "$1 1"),
            ("TYPE b", "+string"),
            ("DEL a b l", ":2"),
            ("SET a", "-ERR wrong number of arguments for 'set' command"),
            ("SET a 1 EX", "-ERR syntax error"),
            ("SET a 1 EX 0", "-ERR invalid expire time in 'set' command"),
            ("GET z", "-ERR get touches a key that was not declared"),
        ],
    );
}

#[test]
fn lists_hashes_and_sets_are_as_in_redis() {
    says(
        &["l", "m", "h", "s", "t"],
        &[
            ("RPUSH l a b c", ":3"),
            ("LPUSH l z", ":4"),
            ("LRANGE l 0 -1", "*4 $1 z $1 a $1 b $1 c"),
            ("LRANGE l 2 1", "*0"),
            ("LINDEX l -1", "$1 c"),
            ("LSET l 9 x", "-ERR index out of range"),
            ("LTRIM l 1 2", "+OK"),
            ("RPOPLPUSH l m", "$1 b"),
            ("LMOVE l m LEFT RIGHT", "$1 a"),
            ("EXISTS l", ":0"),
            ("RPUSH m b b", ":4"),
            ("LREM m -2 b", ":2"),
            ("LRANGE m 0 -1", "*2 $1 b $1 a"),
            ("LPOP m 5", "*2 $1 b $1 a"),
            ("LPOP m", "$-1"),
            ("LPUSHX m 1", ":0"),
            ("HSET h f 1 g 2", ":2"),
            ("HINCRBY h f 4", ":5"),
            ("HMGET h f x", "*2 $1 5 $-1"),
            ("HGETALL h", "*4 $1 f $1 5 $1 g $1 2"),
            ("HDEL h f g", ":2"),
            ("TYPE h", "+none"),
            ("HSET h f", "-ERR wrong number of arguments for 'hset' command"),
            ("SADD s a b", ":2"),
            ("SADD t b c", ":2"),
            ("SINTER s t", "*1 $1 b"),
            ("SUNION s t", "*3 $1 a $1 b $1 c"),
            ("SDIFF s t", "*1 $1 a"),
            ("SMOVE s t a", ":1"),
            ("SMISMEMBER t a z", "*2 :1 :0"),
            ("LPUSH s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("GET s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
}

#[test]
fn keys_expire_by_the_time_of_the_transaction() {
    let mut sheet = sheet(&["a", "b"]);
    let said = talk(
        &mut sheet,
        &["SET a 1 EX 10", "TTL a", "EXPIRE a 5 GT", "PEXPIRE b 5", "PTTL a", "TTL b", "SET b 1"],
    );
    let replies: Vec<&str> = said.lines().filter_map(|line| line.split(" -> ").nth(1)).collect();
    assert_eq!(replies, ["+OK", ":10", ":0", ":0", ":10000", ":-2", "+OK"]);
    let mut later = Sheet::new(1_010_000);
    later.lend(b"a", sheet.get(b"a").unwrap().clone());
    assert_eq!(talk(&mut later, &["GET a"]), "GET a -> $-1\n");
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_words_are_too_odd(
            place in 0..COMMANDS.len(),
            words in prop::collection::vec("[a-c]|-?[0-9]{1,19}|EX|NX|LEFT|GET", 0..6),
            again in 0..COMMANDS.len(),
        ) {
            let mut sheet = sheet(&["a", "b", "c"]);
            for place in [place, again, place] {
                let spec = &COMMANDS[place];
                let mut all = vec![spec.name.as_bytes()];
                all.extend(words.iter().map(|word| word.as_bytes()));
                spec.run(&all, &mut sheet);
            }
        }
    }
}
