//! Writes a table as an Apache Parquet file (format specification 2.x): one row group, one data page
//! (version 1) per column, plain encoding, no compression. All columns are optional 64-bit integers, doubles
//! or UTF-8 strings.
//!
//! Tables of experiments have some thousand cells and need only this part of the format; the `parquet` crate
//! would add about fifty dependencies. Files are checked with pyarrow.

use super::table::{Column, Table};
use super::value::Cell;

const MAGIC: &[u8; 4] = b"PAR1";

/// Parquet's physical types, used as the column types.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int = 2,
    Double = 5,
    Text = 6,
}

const ENCODING_PLAIN: i64 = 0;
const ENCODING_RLE: i64 = 3;
const REPETITION_OPTIONAL: i64 = 1;
const CONVERTED_UTF8: i64 = 0;
const PAGE_DATA: i64 = 0;
const UNCOMPRESSED: i64 = 0;

/// Types of Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Table {
    /// The table as the bytes of a Parquet file.
    pub fn to_parquet(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let chunks: Vec<Chunk> = self.columns.iter().map(|column| Chunk::write(column, &mut out)).collect();
        let mut footer = Thrift::default();
        footer.int(1, I32, 1);
        footer.list(2, STRUCT, self.columns.len() + 1);
        footer.element(|root| {
            root.text(4, "table");
            root.int(5, I32, self.columns.len() as i64);
        });
        for (column, chunk) in self.columns.iter().zip(&chunks) {
            footer.element(|element| {
                element.int(1, I32, chunk.kind as i64);
                element.int(3, I32, REPETITION_OPTIONAL);
                element.text(4, &column.name);
                if chunk.kind == Kind::Text {
                    element.int(6, I32, CONVERTED_UTF8);
                    element.structure(10, |logical| logical.structure(1, |_| {}));
                }
            });
        }
        footer.int(3, I64, self.rows() as i64);
        footer.list(4, STRUCT, 1);
        footer.element(|group| {
            group.list(1, STRUCT, chunks.len());
            for (column, chunk) in self.columns.iter().zip(&chunks) {
                group.element(|element| chunk.describe(column, self.rows(), element));
            }
            group.int(2, I64, chunks.iter().map(|chunk| chunk.size).sum::<usize>() as i64);
            group.int(3, I64, self.rows() as i64);
        });
        footer.text(6, concat!("Doorbell version ", env!("CARGO_PKG_VERSION")));
        footer.bytes.push(0);
        out.extend_from_slice(&footer.bytes);
        out.extend_from_slice(&(footer.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(MAGIC);
        out
    }
}

/// Location of a column's page in the file.
struct Chunk {
    kind: Kind,
    offset: usize,
    size: usize,
}

impl Chunk {
    fn write(column: &Column, out: &mut Vec<u8>) -> Chunk {
        let kind = kind(column);
        let data = page(column, kind);
        let offset = out.len();
        let mut header = Thrift::default();
        header.int(1, I32, PAGE_DATA);
        header.int(2, I32, data.len() as i64);
        header.int(3, I32, data.len() as i64);
        header.structure(5, |page| {
            page.int(1, I32, column.cells.len() as i64);
            page.int(2, I32, ENCODING_PLAIN);
            page.int(3, I32, ENCODING_RLE);
            page.int(4, I32, ENCODING_RLE);
        });
        header.bytes.push(0);
        out.extend_from_slice(&header.bytes);
        out.extend_from_slice(&data);
        Chunk { kind, offset, size: out.len() - offset }
    }

    fn describe(&self, column: &Column, rows: usize, out: &mut Thrift) {
        out.int(2, I64, self.offset as i64);
        out.structure(3, |meta| {
            meta.int(1, I32, self.kind as i64);
            meta.list(2, I32, 2);
            meta.zigzag(ENCODING_PLAIN);
            meta.zigzag(ENCODING_RLE);
            meta.list(3, BINARY, 1);
            meta.binary(column.name.as_bytes());
            meta.int(4, I32, UNCOMPRESSED);
            meta.int(5, I64, rows as i64);
            meta.int(6, I64, self.size as i64);
            meta.int(7, I64, self.size as i64);
            meta.int(9, I64, self.offset as i64);
        });
    }
}

/// The narrowest type that can hold every cell.
fn kind(column: &Column) -> Kind {
    if column.cells.iter().any(|cell| matches!(cell, Cell::Text(_))) {
        Kind::Text
    } else if column.cells.iter().any(|cell| matches!(cell, Cell::Int(_)))
        && !column.cells.iter().any(|cell| matches!(cell, Cell::Float(_)))
    {
        Kind::Int
    } else {
        Kind::Double
    }
}

/// A page: definition levels, run-length encoded, followed by the values of the non-empty cells.
fn page(column: &Column, kind: Kind) -> Vec<u8> {
    let mut levels = Vec::new();
    for run in column.cells.chunk_by(|a, b| (*a == Cell::None) == (*b == Cell::None)) {
        varint(&mut levels, (run.len() as u64) << 1);
        levels.push(u8::from(run[0] != Cell::None));
    }
    let mut out = (levels.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&levels);
    for cell in column.cells.iter().filter(|cell| **cell != Cell::None) {
        match (kind, cell) {
            (Kind::Int, Cell::Int(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (Kind::Int | Kind::Double, _) => {
                out.extend_from_slice(&cell.number().unwrap_or(f64::NAN).to_le_bytes());
            }
            (Kind::Text, _) => {
                let text = cell.text();
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A structure in Thrift's compact protocol, without its terminating zero.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last_field: u8,
}

impl Thrift {
    /// Field IDs must ascend by at most 15.
    fn field(&mut self, id: u8, kind: u8) {
        self.bytes.push((id - self.last_field) << 4 | kind);
        self.last_field = id;
    }

    fn zigzag(&mut self, value: i64) {
        varint(&mut self.bytes, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn binary(&mut self, bytes: &[u8]) {
        varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn int(&mut self, id: u8, kind: u8, value: i64) {
        self.field(id, kind);
        self.zigzag(value);
    }

    fn text(&mut self, id: u8, text: &str) {
        self.field(id, BINARY);
        self.binary(text.as_bytes());
    }

    /// Starts a list; its elements must follow.
    fn list(&mut self, id: u8, kind: u8, count: usize) {
        self.field(id, LIST);
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, count as u64);
        }
    }

    fn structure(&mut self, id: u8, fill: impl FnOnce(&mut Thrift)) {
        self.field(id, STRUCT);
        self.element(fill);
    }

    /// A structure within a list.
    fn element(&mut self, fill: impl FnOnce(&mut Thrift)) {
        let mut inner = Thrift { bytes: std::mem::take(&mut self.bytes), last_field: 0 };
        fill(&mut inner);
        self.bytes = inner.bytes;
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    fn table() -> Table {
        let column = |name: &str, cells| Column { name: name.to_owned(), cells, parameter: None };
        let many = |n: usize| (0..n).map(|i| Cell::Int(i as i64 - 150)).collect::<Vec<_>>();
        let mut columns = vec![
            column("index", many(300)),
            column(
                "a.b_KiB",
                (0..300)
                    .map(|i| if i % 7 == 0 { Cell::None } else { Cell::Float(f64::from(i) / 3.0) })
                    .collect(),
            ),
            column(
                "text, with comma",
                (0..300).map(|i| if i < 200 { Cell::Text(format!("µ{i}")) } else { Cell::None }).collect(),
            ),
            column("nothing", vec![Cell::None; 300]),
            column(
                "mixed",
                (0..300).map(|i| if i % 2 == 0 { Cell::Int(i) } else { Cell::Float(0.5) }).collect(),
            ),
        ];
        // More columns than the short form of a Thrift list can hold.
        columns.extend((0..20).map(|n| column(&format!("c{n}"), many(300))));
        Table { columns }
    }

    /// Debian has no package of pyarrow. Run with: `cargo test -p doorbell-study pyarrow -- --ignored`.
    #[test]
    #[ignore = "needs python3 with pyarrow"]
    fn pyarrow_reads_the_written_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        std::fs::write(&path, table().to_parquet()).unwrap();
        let script = "import sys\nimport pyarrow.parquet as p\n\
            t = p.read_table(sys.argv[1])\nassert t.num_rows == 300 and t.num_columns == 25, t.shape\n\
            assert [str(c) for c in t.schema.types[:5]] == ['int64','double','string','double','double'], t.schema\n\
            d = t.to_pydict()\nassert d['index'] == list(range(-150, 150))\n\
            assert d['a.b_KiB'] == [None if i % 7 == 0 else i / 3 for i in range(300)]\n\
            assert d['text, with comma'] == ['µ%d' % i if i < 200 else None for i in range(300)]\n\
            assert d['nothing'] == [None] * 300 and d['c19'] == d['index']\n\
            assert d['mixed'] == [float(i) if i % 2 == 0 else 0.5 for i in range(300)]\n";
        let python = Command::new("python3").arg("-").arg(&path).stdin(Stdio::piped()).spawn();
        let mut python = python.expect("python3 starts");
        python.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(python.wait().unwrap().success());
    }

    #[test]
    fn a_table_of_one_cell_has_the_specified_bytes() {
        let column = Column { name: "n".into(), cells: vec![Cell::Int(7)], parameter: None };
        let bytes = Table { columns: vec![column] }.to_parquet();
        // Derived by hand from the format's specification: a page header (14 + 14 bytes of data), levels, the value.
        let page = [
            0x15, 0x00, 0x15, 0x1c, 0x15, 0x1c, 0x2c, 0x15, 0x02, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00,
            0x00, // header
            2, 0, 0, 0, 2, 1, 7, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..4], *MAGIC);
        assert_eq!(bytes[4..4 + page.len()], page);
        assert_eq!(bytes[bytes.len() - 4..], *MAGIC);
        let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap());
        assert_eq!(length as usize, bytes.len() - 8 - 4 - page.len());
    }
}
