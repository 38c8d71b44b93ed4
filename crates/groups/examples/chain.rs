//! A service that burns CPU time and asks the next one: for tests and for trying out
//! `cavy live whatif` without an application.
//!
//! `chain PORT BURN_US [NEXT_PORT]` serves HTTP on 127.0.0.1:PORT, a thread for each connection.

use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

fn cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec as i64
}

/// Keeps this thread computing for so long of its own CPU time.
fn burn(us: i64) {
    let end = cpu_ns() + us * 1_000;
    while cpu_ns() < end {
        std::hint::spin_loop();
    }
}

/// Reads up to the empty line that ends a head; false at the end of the stream.
fn head(stream: &mut BufReader<TcpStream>) -> bool {
    let mut line = String::new();
    loop {
        line.clear();
        match stream.read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) if line == "\r\n" => return true,
            Ok(_) => {}
        }
    }
}

fn serve(stream: TcpStream, burn_us: i64, next: Option<u16>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut behind = match next {
        Some(port) => {
            let behind = TcpStream::connect(("127.0.0.1", port))?;
            behind.set_nodelay(true)?;
            Some(BufReader::new(behind))
        }
        None => None,
    };
    while head(&mut stream) {
        burn(burn_us);
        if let Some(behind) = &mut behind {
            behind.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: next\r\n\r\n")?;
            if !head(behind) {
                break;
            }
        }
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
    Ok(())
}

fn main() {
    let words: Vec<String> =
        std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u32>().ok());
    let (Some(port), Some(burn_us)) = (number(1), number(2)) else {
        panic!("usage: chain PORT BURN_US [NEXT_PORT]");
    };
    let next = number(3).map(|port| port as u16);
    let listener = TcpListener::bind(("127.0.0.1", port as u16)).expect("the port is free");
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || drop(serve(stream, i64::from(burn_us), next)));
    }
}
