//! Tests of captures and distributions against other tools, as one program: each more would be linked apart.

mod capture;
mod numpy;
mod real_captures;
mod tshark;
mod tshark_streams;
