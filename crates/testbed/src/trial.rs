//! Trying out parts of the kernel in a namespace that goes with this.

use crate::owner::Owner;
use crate::{Error, tools};

/// A part of the kernel that testbeds are made of.
#[derive(Clone, Copy, Debug)]
pub struct KernelPart {
    /// Its name.
    pub name: &'static str,
    /// What for.
    pub needed_for: &'static str,
    /// Who is told.
    tool: &'static str,
    /// What. Later parts build on earlier ones.
    line: &'static str,
}

/// All parts, in the order in which they are tried.
pub const PARTS: [KernelPart; 6] = [
    KernelPart {
        name: "veth",
        needed_for: "testbed: links",
        tool: "ip",
        line: "link add v0 type veth peer name v1",
    },
    KernelPart {
        name: "bridge",
        needed_for: "testbed: the switch",
        tool: "ip",
        line: "link add br0 type bridge",
    },
    KernelPart {
        name: "htb",
        needed_for: "testbed: rates and levels",
        tool: "tc",
        line: "qdisc add dev v0 root handle 1: htb default 10",
    },
    KernelPart {
        name: "bfifo",
        needed_for: "testbed: buffers in bytes",
        tool: "tc",
        line: "qdisc add dev v1 root bfifo limit 9000",
    },
    KernelPart {
        name: "u32",
        needed_for: "testbed: levels by TOS",
        tool: "tc",
        line: "filter add dev v0 parent 1: protocol ip prio 1 u32 match ip tos 0xe0 0xe0 flowid \
               1:10",
    },
    KernelPart {
        name: "tun",
        needed_for: "line: hosts whose packets take time",
        tool: "ip",
        line: "tuntap add dev t0 mode tun",
    },
];

/// A namespace to try things in.
#[derive(Debug)]
pub struct Trial {
    name: String,
}

impl Trial {
    /// Makes it.
    ///
    /// # Errors
    /// Without the right to, or without iproute2.
    pub fn open() -> Result<Trial, Error> {
        let trial = Trial { name: Owner::this_process()?.trial() };
        tools::run("ip", &["netns", "add", &trial.name])?;
        Ok(trial)
    }

    /// Does this part work?
    ///
    /// # Errors
    /// What `ip` or `tc` said.
    pub fn works(&self, part: &KernelPart) -> Result<(), String> {
        let done = tools::batch(part.tool, Some(&self.name), &[part.line.to_string()]);
        done.map_err(|error| error.message().to_string())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // What cannot be removed now is a leftover of this process when it has ended.
        let _ = tools::run("ip", &["netns", "del", &self.name]);
    }
}
