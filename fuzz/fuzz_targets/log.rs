#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cavy_node::hostile::log(bytes));
