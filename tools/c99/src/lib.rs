//! C's fast minimum-width integer types (`int_fast32_t` etc.), as defined by glibc on 64-bit machines.

#![no_std]
#![allow(non_camel_case_types, missing_docs)]

pub type int_fast32_t = i64;
pub type int_fast64_t = i64;
pub type uint_fast8_t = u8;
pub type uint_fast32_t = u64;
pub type uint_fast64_t = u64;
