//! Scripts: Lua 5.1 without anything that two replicas could see differently.
//!
//! Each run has a state of its own, so nothing is left over. There is no file, clock or chance in
//! it; tables are walked in the order of their keys, and nothing shows an address. What a script
//! that fails has written is taken back.
//!
//! A run ends after a number of instructions, and after a number of bytes that it makes, copies or
//! looks through, at the same point everywhere. Nothing is collected during a run, so whatever is
//! made counts, and one instruction that makes megabytes counts as such; what goes in and out, and
//! library functions that make nothing, are counted beside that. A comparison of long equal texts
//! is still one instruction.

use crate::command;
use crate::datum::Sheet;
use crate::reply::Reply;
use mlua::{HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Value, VmState};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a script may take. The same on all nodes of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Instructions of Lua's machine.
    pub instructions: u64,
    /// Bytes that it makes in Lua, and as many again that go in and out or are looked through.
    pub bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { instructions: 2_000_000, bytes: 64 << 20 }
    }
}

/// Instructions between two looks at the budget.
const STEP: u32 = 1_000;

const PRELUDE: &str = r#"
local raw_next, raw_pcall, raw_type, raw_tostring = next, pcall, type, tostring
local raw_sort, raw_error, raw_rep = table.sort, error, string.rep
local raw_unpack, raw_maxn, spent, copies = unpack, table.maxn, spent, copies
local function before(a, b)
  local ta, tb = raw_type(a), raw_type(b)
  if ta ~= tb then return ta < tb end
  if ta == 'boolean' then return not a and b end
  return a < b
end
local function sorted(t)
  local keys = {}
  for k in raw_next, t do
    local kind = raw_type(k)
    if kind ~= 'number' and kind ~= 'string' and kind ~= 'boolean' then
      raw_error('a table whose keys are tables or functions has no order to walk it in', 3)
    end
    keys[#keys + 1] = k
  end
  raw_sort(keys, before)
  return keys
end
function pairs(t)
  local keys, at = sorted(t), 0
  return function()
    at = at + 1
    local k = keys[at]
    if k ~= nil then return k, t[k] end
  end
end
function next(t, k)
  local keys = sorted(t)
  if k == nil then
    if keys[1] == nil then return nil end
    return keys[1], t[keys[1]]
  end
  for at = 1, #keys do
    if keys[at] == k then
      local after = keys[at + 1]
      if after == nil then return nil end
      return after, t[after]
    end
  end
  raw_error('invalid key to next', 2)
end
function tostring(v)
  local kind = raw_type(v)
  if kind == 'table' or kind == 'function' or kind == 'userdata' or kind == 'thread' then
    return kind
  end
  return raw_tostring(v)
end
function pcall(f, ...)
  local found = {raw_pcall(f, ...)}
  if not found[1] and spent() then raw_error(found[2], 0) end
  return raw_unpack(found, 1, raw_maxn(found))
end
function string.rep(text, times)
  if #text * times > 4194304 then raw_error('string.rep makes more than 4 MiB', 2) end
  return raw_rep(text, times)
end
for _, name in ipairs({'find', 'match', 'gmatch', 'gsub'}) do
  local raw = string[name]
  string[name] = function(text, ...)
    copies(#text)
    return raw(text, ...)
  end
end
for _, name in ipairs({'insert', 'remove', 'sort', 'concat', 'maxn'}) do
  local raw, each = table[name], name == 'sort' and 256 or 16
  table[name] = function(t, ...)
    if name ~= 'insert' or select('#', ...) > 1 then copies(#t * each) end
    return raw(t, ...)
  end
end
function unpack(t, ...)
  copies(#t * 16)
  return raw_unpack(t, ...)
end
for _, name in ipairs({'collectgarbage', 'dofile', 'gcinfo', 'getfenv', 'load', 'loadfile',
    'loadstring', 'module', 'newproxy', 'print', 'require', 'setfenv', 'xpcall', 'spent', 'copies',
    'package', 'coroutine', 'debug', 'io', 'os'}) do
  _G[name] = nil
end
string.dump = nil
math.random, math.randomseed = nil, nil
function redis.status_reply(text) return {ok = text} end
function redis.error_reply(text) return {err = text} end
function redis.log() end
function redis.setresp() end
redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
"#;

/// The name of a script: SHA-1 in hex, as Redis names them.
pub fn name(source: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, source);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a script. Where the answer is an error, `sheet` is to be thrown away.
pub fn run(
    source: &[u8],
    keys: &[&[u8]],
    args: &[&[u8]],
    sheet: &mut Sheet,
    budget: Budget,
) -> Reply {
    match carry_out(source, keys, args, sheet, budget) {
        Ok(reply) => reply,
        Err(error) => {
            // The first line says what is wrong; the rest is a trace through the prelude.
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            let line = line.strip_prefix("runtime error: ").unwrap_or(line);
            match line.split_once(' ') {
                // An error of a command, passed on.
                Some((code, _))
                    if code.len() > 2 && code.bytes().all(|b| b.is_ascii_uppercase()) =>
                {
                    Reply::Error(line.to_string())
                }
                _ => Reply::err(format!("Error running script: {line}")),
            }
        }
    }
}

fn carry_out(
    source: &[u8],
    keys: &[&[u8]],
    args: &[&[u8]],
    sheet: &mut Sheet,
    budget: Budget,
) -> mlua::Result<Reply> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.gc_stop();
    lua.set_memory_limit(budget.bytes)?;
    let room = Room(Rc::new(Cell::new(budget.bytes)));
    let left = Rc::new(Cell::new(budget.instructions));
    let hook = Rc::clone(&left);
    lua.set_hook(HookTriggers::new().every_nth_instruction(STEP), move |_, _| {
        hook.set(hook.get().saturating_sub(STEP.into()));
        if hook.get() == 0 {
            return Err(mlua::Error::runtime("the script takes too many instructions"));
        }
        Ok(VmState::Continue)
    })?;
    let globals = lua.globals();
    let spent = Rc::clone(&left);
    let full = room.clone();
    let over = move |_: &Lua, ()| Ok(spent.get() == 0 || full.0.get() == 0);
    globals.set("spent", lua.create_function(over)?)?;
    let copied = room.clone();
    let copies = move |_: &Lua, bytes: f64| copied.take(bytes as usize);
    globals.set("copies", lua.create_function(copies)?)?;
    let now_ms = sheet.now_ms;
    let sheet = RefCell::new(sheet);
    lua.scope(|scope| {
        let redis = lua.create_table()?;
        let call = |raise: bool| {
            let (sheet, room) = (&sheet, &room);
            scope.create_function(move |lua, words: MultiValue| {
                let words = strings(&words, room)?;
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let reply = command_of(&words, &mut sheet.borrow_mut(), now_ms);
                match reply {
                    Reply::Error(text) if raise => Err(mlua::Error::runtime(text)),
                    reply => to_lua(lua, &reply, room),
                }
            })
        };
        redis.set("call", call(true)?)?;
        redis.set("pcall", call(false)?)?;
        redis.set(
            "sha1hex",
            scope.create_function(|_, text: mlua::LuaString| {
                room.take(text.as_bytes().len())?;
                Ok(name(&text.as_bytes()))
            })?,
        )?;
        globals.set("redis", redis)?;
        lua.load(PRELUDE).set_name("=prelude").set_mode(mlua::chunk::ChunkMode::Text).exec()?;
        let list = |items: &[&[u8]]| {
            let items = items.iter().map(|item| lua.create_string(item));
            lua.create_sequence_from(items.collect::<mlua::Result<Vec<_>>>()?)
        };
        globals.set("KEYS", list(keys)?)?;
        globals.set("ARGV", list(args)?)?;
        let chunk =
            lua.load(source).set_name("=user_script").set_mode(mlua::chunk::ChunkMode::Text);
        let found: Value = chunk.eval()?;
        from_lua(&found, 0, &room)
    })
}

/// What is left of the bytes that go in and out.
#[derive(Clone)]
struct Room(Rc<Cell<usize>>);

impl Room {
    fn take(&self, bytes: usize) -> mlua::Result<()> {
        self.0.set(self.0.get().saturating_sub(bytes));
        match self.0.get() {
            0 => Err(mlua::Error::runtime("the script copies too many bytes")),
            _ => Ok(()),
        }
    }
}

fn strings(words: &MultiValue, room: &Room) -> mlua::Result<Vec<Vec<u8>>> {
    let word = |word: &Value| match word {
        Value::String(text) => {
            room.take(text.as_bytes().len())?;
            Ok(text.as_bytes().to_vec())
        }
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(format!("{number}").into_bytes()),
        _ => Err(mlua::Error::runtime("ERR arguments of redis.call must be strings or numbers")),
    };
    words.iter().map(word).collect()
}

fn command_of(words: &[&[u8]], sheet: &mut Sheet, now_ms: u64) -> Reply {
    let Some(first) = words.first() else {
        return Reply::err("redis.call needs the name of a command");
    };
    if first.eq_ignore_ascii_case(b"TIME") {
        let (seconds, rest) = (now_ms / 1_000, now_ms % 1_000 * 1_000);
        return Reply::Array(vec![Reply::bulk(seconds.to_string()), Reply::bulk(rest.to_string())]);
    }
    match command::find(first) {
        Some(spec) => spec.run(words, sheet),
        None => {
            let shown: String = String::from_utf8_lossy(first).chars().take(64).collect();
            Reply::err(format!("this command is not for scripts: '{shown}'"))
        }
    }
}

fn to_lua(lua: &Lua, reply: &Reply, room: &Room) -> mlua::Result<Value> {
    let one = |name: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        Reply::Status(text) => one("ok", text)?,
        Reply::Error(text) => one("err", text)?,
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => {
            room.take(bytes.len())?;
            Value::String(lua.create_string(bytes)?)
        }
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Array(items) | Reply::Set(items) => {
            let table = lua.create_table()?;
            for (place, item) in items.iter().enumerate() {
                table.set(place + 1, to_lua(lua, item, room)?)?;
            }
            Value::Table(table)
        }
        Reply::Map(pairs) => {
            let table = lua.create_table()?;
            for (place, (name, value)) in pairs.iter().enumerate() {
                table.set(2 * place + 1, to_lua(lua, name, room)?)?;
                table.set(2 * place + 2, to_lua(lua, value, room)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Deepest table that a script may answer with.
const DEPTH: usize = 32;

fn from_lua(value: &Value, depth: usize, room: &Room) -> mlua::Result<Reply> {
    if depth > DEPTH {
        return Err(mlua::Error::runtime("ERR the script's answer is nested too deeply"));
    }
    Ok(match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        // Redis cuts the fraction off.
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => {
            room.take(text.as_bytes().len())?;
            Reply::bulk(text.as_bytes())
        }
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get::<Value>("err")? {
                return Ok(Reply::Error(text.to_string_lossy()));
            }
            if let Value::String(text) = table.raw_get::<Value>("ok")? {
                return Ok(Reply::Status(text.to_string_lossy()));
            }
            let mut items = Vec::new();
            for place in 1.. {
                match table.raw_get::<Value>(place)? {
                    Value::Nil => break,
                    item => items.push(from_lua(&item, depth + 1, room)?),
                }
            }
            Reply::Array(items)
        }
        _ => Reply::Nil,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datum::Datum;
    use crate::reply::Version;

    fn says(source: &str) -> String {
        let mut sheet = Sheet::new(1_234_567);
        sheet.lend(b"a", Datum::default());
        let reply = run(source.as_bytes(), &[b"a"], &[b"7", b"x"], &mut sheet, Budget::default());
        let mut bytes = Vec::new();
        reply.write(Version::Two, &mut bytes);
        String::from_utf8_lossy(&bytes).replace("\r\n", " ").trim_end().to_string()
    }

    #[test]
    fn values_go_over_as_in_redis() {
        for (source, expected) in [
            ("return {1, 3.9, 'x', true, false, nil, 5}", "*5 :1 :3 $1 x :1 $-1"),
            ("return {ok='fine'}", "+fine"),
            ("return redis.error_reply('MINE no')", "-MINE no"),
            ("return redis.call('SET', KEYS[1], ARGV[1])", "+OK"),
            ("redis.call('set', 'a', 5); return redis.call('incrby', 'a', ARGV[1]) + 1", ":13"),
            ("return redis.call('get', 'a')", "$-1"),
            ("return redis.call('get', 'b')", "-ERR get touches a key that was not declared"),
            (
                "return redis.pcall('lpush', 'a')",
                "-ERR wrong number of arguments for 'lpush' command",
            ),
            ("return redis.call('time')", "*2 $4 1234 $6 567000"),
            ("return redis.call('flushall')", "-ERR this command is not for scripts: 'flushall'"),
            ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("return #KEYS .. #ARGV", "$2 12"),
        ] {
            assert_eq!(says(source), expected, "{source}");
        }
    }

    #[test]
    fn nothing_differs_between_two_replicas() {
        for (source, expected) in [
            (
                "local t = {} for _, k in ipairs({'z','b','y','a'}) do t[k] = 1 end
              local s = '' for k in pairs(t) do s = s .. k end return s",
                "$4 abyz",
            ),
            ("return next({b=1, a=2})", "$1 a"),
            ("return tostring({}) .. tostring(print) .. tostring(nil)", "$11 tablenilnil"),
        ] {
            assert_eq!(says(source), expected, "{source}");
        }
        for source in [
            "return os.time()",
            "return io.open('/etc/passwd')",
            "return math.random()",
            "return loadstring('return 1')()",
            "return require('os')",
            "return string.dump(pairs)",
            "return coroutine.create(pairs)",
            "return getfenv()",
            "for k in pairs({[{}]=1}) do end",
            "return debug.getinfo(1)",
            "collectgarbage()",
            "this is no Lua",
            "error('mine')",
            "return setmetatable({}, {__tostring = 1})..''",
        ] {
            assert!(
                says(source).starts_with("-ERR Error running script: "),
                "{source}: {}",
                says(source)
            );
        }
    }

    /// Each of these copies or looks through far more than its instructions say, and ends within
    /// the budget of bytes; what fits goes on.
    #[test]
    fn scripts_that_copy_megabytes_end() {
        for source in [
            "local s = string.rep('x', 4e6) for i = 1, 1e5 do local t = s .. i end",
            "local s = string.rep('x', 4e6) for i = 1, 1e5 do redis.call('SET', KEYS[1], s) end",
            "local s = string.rep('x', 4e6) for i = 1, 1e5 do string.find(s, 'y') end",
            "local s = string.rep('x', 4e6) for i = 1, 1e5 do pcall(string.find, s, 'y') end",
            "local s = string.rep('x', 4e6) for i = 1, 1e5 do redis.sha1hex(s) end",
            "local s, t = string.rep('x', 4e6), {} for i = 1, 1e5 do t[i] = s end return t",
            "local t = {} for i = 1, 1e5 do t[i] = i end
             for i = 1, 1e5 do table.insert(t, 1, i) end",
            "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 1e5 do table.sort(t) end",
        ] {
            let said = says(source);
            assert!(said.starts_with("-ERR Error running script: "), "{source}: {said:.80}");
        }
        assert_eq!(says("local s = string.rep('x', 4e6) return #(s .. s)"), ":8000000");
        assert_eq!(
            says("local n = 0 for w in ('a b c'):gmatch('%a') do n = n + 1 end return n"),
            ":3"
        );
        assert_eq!(
            says("local t = {3, 1, 2} table.sort(t) return table.concat(t, ',')"),
            "$5 1,2,3"
        );
        assert_eq!(says("return select('#', unpack({1, 2, 3}))"), ":3");
    }

    #[test]
    fn endless_scripts_end_however_they_try() {
        for source in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "local function f() return f() end return f()",
            "local t = {} while true do t[#t + 1] = {} end",
            "local s = 'x' while true do s = s .. s end",
            "return string.rep('x', 1e9)",
            "local function f() f() end f()",
        ] {
            assert!(
                says(source).starts_with("-ERR Error running script: "),
                "{source}: {}",
                says(source)
            );
        }
    }
}
