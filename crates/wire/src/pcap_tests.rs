use super::*;
use pcap_parser::{PcapBlockOwned, PcapError as ReadError, create_reader};
use proptest::prelude::*;

/// Records as an independent reader returns them: nanoseconds, stored bytes, original length.
fn read_back(bytes: &[u8]) -> Vec<(u64, Vec<u8>, u32)> {
    let mut reader = create_reader(1 << 20, bytes).unwrap();
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Ok((consumed, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        assert!(header.is_nanosecond_precision());
                        assert_eq!((header.version_major, header.version_minor), (2, 4));
                        assert_eq!(header.network, pcap_parser::Linktype::ETHERNET);
                    }
                    PcapBlockOwned::Legacy(record) => {
                        let ns = u64::from(record.ts_sec) * 1_000_000_000 + u64::from(record.ts_usec);
                        records.push((ns, record.data.to_vec(), record.origlen));
                    }
                    PcapBlockOwned::NG(_) => panic!("not a pcapng file"),
                }
                reader.consume(consumed);
            }
            Err(ReadError::Eof) => return records,
            Err(ReadError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A sink whose disk is full after `room` bytes, and which accepts at most seven bytes per call.
struct FullAfter {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for FullAfter {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let count = from.len().min(7).min(self.room - self.bytes.len());
        if count == 0 && !from.is_empty() {
            return Err(io::Error::from_raw_os_error(28));
        }
        self.bytes.extend_from_slice(&from[..count]);
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disk_is_reported_at_the_end_with_the_whole_frames() {
    // Header 24, records 16 + 60 each: 200 bytes hold two frames and 24 bytes of the third.
    let mut writer = PcapWriter::new(FullAfter { bytes: Vec::new(), room: 200 }, WHOLE_FRAMES);
    for i in 0..5 {
        writer.record(Ps::from_us(i), &Frame::new(vec![i as u8; 60]));
    }
    let error = writer.finish().unwrap_err();
    assert_eq!((error.frames_written, writer.whole_bytes), (2, 24 + 2 * 76));
    assert!(error.to_string().contains("after 2 frames") && error.to_string().contains("space"), "{error}");
    writer.record(Ps::from_us(9), &Frame::new(vec![9; 60]));
    assert!(writer.finish().is_err(), "the error persists");
    assert_eq!(read_back(&writer.out.bytes[..writer.whole_bytes as usize]).len(), 2);
}

#[test]
fn error_in_the_file_header_leaves_no_whole_frames() {
    let mut writer = PcapWriter::new(FullAfter { bytes: Vec::new(), room: 10 }, WHOLE_FRAMES);
    writer.record(Ps::ZERO, &Frame::new(vec![0; 60]));
    assert_eq!(writer.finish().unwrap_err().frames_written, 0);
    assert_eq!(writer.whole_bytes, 0);
}

#[test]
fn dropped_file_is_complete_and_failed_file_is_cut_to_whole_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.pcap");
    let mut file = PcapFile::create(&path, WHOLE_FRAMES).unwrap();
    file.record(Ps::from_us(3), &Frame::new(vec![1; 60]));
    drop(file);
    assert_eq!(read_back(&std::fs::read(&path).unwrap()).len(), 1);

    let mut file = PcapFile::create(&path, WHOLE_FRAMES).unwrap();
    file.record(Ps::from_us(3), &Frame::new(vec![1; 60]));
    file.writer.flush();
    // Simulates a host error within the second record.
    file.writer.out.write_all(&[0; 20]).unwrap();
    file.writer.error = Some(io::Error::from_raw_os_error(28));
    let error = file.finish().unwrap_err().to_string();
    assert!(error.contains("wire.pcap") && error.contains("after 1 frames"), "{error}");
    assert_eq!(read_back(&std::fs::read(&path).unwrap()).len(), 1);
}

#[test]
fn error_names_a_file_that_cannot_be_created() {
    let error = PcapFile::create(Path::new("/nowhere/at/all/wire.pcap"), WHOLE_FRAMES).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all/wire.pcap"), "{error}");
}

proptest! {
    #[test]
    fn independent_reader_returns_the_recorded_frames(
        frames in prop::collection::vec((0u64..10_000_000_000_000, prop::collection::vec(any::<u8>(), 14..2000)), 0..40),
        snap_len in prop::sample::select(vec![64u32, 1000, WHOLE_FRAMES]),
    ) {
        let mut bytes = Vec::new();
        let mut writer = PcapWriter::new(&mut bytes, snap_len);
        for (at, frame) in &frames {
            writer.record(Ps(*at), &Frame::new(frame.clone()));
        }
        prop_assert_eq!(writer.finish().unwrap(), frames.len() as u64);
        drop(writer);
        let expected: Vec<_> = frames
            .into_iter()
            .map(|(at, mut frame)| {
                let length = frame.len() as u32;
                frame.truncate(snap_len as usize);
                (at / 1000, frame, length)
            })
            .collect();
        prop_assert_eq!(read_back(&bytes), expected);
    }

    #[test]
    fn error_at_any_byte_leaves_whole_records(room in 24usize..4_000) {
        let mut writer = PcapWriter::new(FullAfter { bytes: Vec::new(), room }, WHOLE_FRAMES);
        for i in 0..60u64 {
            writer.record(Ps::from_us(i), &Frame::new(vec![i as u8; 60 + i as usize]));
            if i % 9 == 0 {
                writer.flush();
            }
        }
        let error = writer.finish().unwrap_err();
        let whole = read_back(&writer.out.bytes[..writer.whole_bytes as usize]);
        prop_assert_eq!(whole.len() as u64, error.frames_written);
        let next = 16 + 60 + whole.len();
        prop_assert!(writer.out.bytes.len() - (writer.whole_bytes as usize) < next, "a whole record was discarded");
    }
}
