//! Capture files: frames out of pcap and pcapng, frames into pcap.
//!
//! [`Reader`] streams: a file of any size takes a buffer of one frame. It reads Ethernet captures only and names frame
//! and offset of whatever is wrong.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock, OptionCode};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError};
use thiserror::Error;

/// Bytes read at once at first.
const START_BUFFER: usize = 64 * 1024;
/// The largest block taken, in bytes: beyond it a length field is taken for garbage.
pub const MAX_BLOCK: usize = 16 * 1024 * 1024;
/// Captured bytes of a frame that a written file announces (its `snaplen`).
const SNAP_LENGTH: u32 = 262_144;
/// Time stamp resolution of pcapng when `if_tsresol` is missing: 10^-6 s.
const NANOSECONDS: u64 = 1_000_000_000;

/// Why a capture cannot be read on.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file cannot be opened or read.
    #[error("cannot read the capture behind byte {offset}: {source}")]
    Io {
        /// Bytes read well before.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Neither format.
    #[error("not a capture: begins like neither pcap nor pcapng")]
    NotACapture,
    /// The file ends inside of a block.
    #[error("capture is cut off: frame {frame} begins at byte {offset} and does not end")]
    Truncated {
        /// Number of the frame that is cut off, from 1.
        frame: u64,
        /// Where in the file its record begins.
        offset: u64,
    },
    /// A block contradicts itself.
    #[error("capture is damaged at byte {offset}, before frame {frame}: {reason}")]
    Damaged {
        /// Number of the next frame, from 1.
        frame: u64,
        /// Where in the file the block begins.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// Frames of another link.
    #[error("frame {frame} is of link type {link}, should be 1 (Ethernet)")]
    LinkType {
        /// Number of the frame, from 1.
        frame: u64,
        /// Its link type.
        link: i32,
    },
}

/// A captured frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Number in the file, from 1.
    pub number: u64,
    /// Where in the file its record begins, in bytes.
    pub offset: u64,
    /// Time since 1970-01-01 UTC; zero where the file has none.
    pub time: Duration,
    /// Bytes that the frame had on the wire; more than `bytes` when the capture cut it.
    pub original_length: usize,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// An interface of a pcapng section.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    snap_length: usize,
    /// `if_tsresol`: a negative power of 10, or of 2 where bit 7 is set.
    resolution: u8,
    /// `if_tsoffset` in seconds.
    offset: i64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let big_endian = block.block_type != pcap_parser::pcapng::IDB_MAGIC;
        let offset = block
            .options
            .iter()
            .find(|option| option.code == OptionCode::IfTsoffset)
            .and_then(|option| option.value.first_chunk::<8>())
            .map_or(0, |bytes| {
                if big_endian {
                    i64::from_be_bytes(*bytes)
                } else {
                    i64::from_le_bytes(*bytes)
                }
            });
        let snap_length = if block.snaplen == 0 {
            usize::MAX
        } else {
            block.snaplen as usize
        };
        Self {
            link: block.linktype,
            snap_length,
            resolution: block.if_tsresol,
            offset,
        }
    }

    /// Time of a stamp in this interface's units.
    fn time(&self, stamp: u64) -> Duration {
        let power = u32::from(self.resolution & 0x7F);
        let base: u128 = if self.resolution & 0x80 == 0 { 10 } else { 2 };
        // A resolution beyond 128 bits leaves nothing of a 64-bit stamp.
        let Some(units) = base.checked_pow(power) else {
            return Duration::ZERO;
        };
        let seconds = u128::from(stamp) / units;
        let rest = u128::from(stamp) % units;
        let nanoseconds = rest
            .checked_mul(u128::from(NANOSECONDS))
            .map_or(0, |scaled| scaled / units);
        let seconds = (seconds as u64).saturating_add_signed(self.offset);
        Duration::new(seconds, nanoseconds as u32)
    }
}

/// Reads the frames of a capture one after the other. After an error it ends.
pub struct Reader {
    blocks: Box<dyn PcapReaderIterator + Send>,
    capacity: usize,
    frames: u64,
    interfaces: Vec<Interface>,
    /// Legacy pcap: link type, and nanoseconds of a unit of the fraction.
    legacy: Option<(Linktype, u32)>,
    done: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("frames", &self.frames)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

/// Fills each read as far as the source goes, so that the format is recognised in the first one.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Reader {
    /// Opens a capture file.
    ///
    /// # Errors
    /// [`CaptureError`] when it cannot be opened or is no capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        Self::new(File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?)
    }

    /// Reads a capture from any source.
    ///
    /// # Errors
    /// [`CaptureError`] when the source is empty, cannot be read, or is no capture.
    pub fn new<R: Read + Send + 'static>(source: R) -> Result<Self, CaptureError> {
        let blocks = pcap_parser::create_reader(START_BUFFER, Full(source)).map_err(|error| match error {
            PcapError::ReadError => io_error(0),
            PcapError::Incomplete(_) => CaptureError::Truncated { frame: 1, offset: 0 },
            _ => CaptureError::NotACapture,
        })?;
        Ok(Self {
            blocks,
            capacity: START_BUFFER,
            frames: 0,
            interfaces: Vec::new(),
            legacy: None,
            done: false,
        })
    }

    /// All frames of a capture file.
    ///
    /// # Errors
    /// The first [`CaptureError`].
    pub fn read_all(path: &Path) -> Result<Vec<CapturedFrame>, CaptureError> {
        Self::open(path)?.collect()
    }

    /// Reads blocks up to the next frame.
    fn next_frame(&mut self) -> Result<Option<CapturedFrame>, CaptureError> {
        loop {
            let offset = self.blocks.consumed() as u64;
            let frame = self.frames + 1;
            match self.blocks.next() {
                Ok((length, block)) => {
                    let found = match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            let unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
                            self.legacy = Some((header.network, unit));
                            Ok(None)
                        }
                        PcapBlockOwned::Legacy(packet) => {
                            let (link, unit) = self.legacy.unwrap_or((Linktype::ETHERNET, 1000));
                            let nanoseconds = u64::from(packet.ts_usec) * u64::from(unit);
                            let time = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(nanoseconds);
                            Ok(Some((link, time, packet.origlen, packet.data.to_vec())))
                        }
                        PcapBlockOwned::NG(block) => ng_frame(&block, &mut self.interfaces),
                    };
                    self.blocks.consume(length);
                    let Some((link, time, original_length, bytes)) =
                        found.map_err(|reason| CaptureError::Damaged { frame, offset, reason })?
                    else {
                        continue;
                    };
                    self.frames = frame;
                    if link != Linktype::ETHERNET {
                        return Err(CaptureError::LinkType { frame, link: link.0 });
                    }
                    let original_length = original_length as usize;
                    return Ok(Some(CapturedFrame {
                        number: frame,
                        offset,
                        time,
                        original_length,
                        bytes,
                    }));
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => self.refill(frame, offset)?,
                Err(PcapError::UnexpectedEof) => {
                    // Nothing left is the end, something left is a cut block.
                    if self.blocks.data().is_empty() {
                        return Ok(None);
                    }
                    return Err(CaptureError::Truncated { frame, offset });
                }
                Err(PcapError::ReadError) => return Err(io_error(offset)),
                Err(PcapError::HeaderNotRecognized) => return Err(CaptureError::NotACapture),
                Err(PcapError::NomError(..) | PcapError::OwnedNomError(..)) => {
                    let reason = "the lengths of a block disagree";
                    return Err(CaptureError::Damaged { frame, offset, reason });
                }
            }
        }
    }

    /// Gets more bytes of the block at `offset`, with a larger buffer where that is full.
    fn refill(&mut self, frame: u64, offset: u64) -> Result<(), CaptureError> {
        let held = self.blocks.data().len();
        self.blocks.refill().map_err(|_| io_error(offset))?;
        if self.blocks.data().len() > held || self.blocks.reader_exhausted() {
            return Ok(());
        }
        if self.capacity >= MAX_BLOCK {
            let reason = "a block is longer than 16 MiB";
            return Err(CaptureError::Damaged { frame, offset, reason });
        }
        self.capacity *= 2;
        self.blocks.grow(self.capacity);
        self.blocks.refill().map_err(|_| io_error(offset))
    }
}

impl Iterator for Reader {
    type Item = Result<CapturedFrame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_frame().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The parser keeps no error of the system.
fn io_error(offset: u64) -> CaptureError {
    CaptureError::Io {
        offset,
        source: io::Error::other("the source cannot be read"),
    }
}

type Found = Option<(Linktype, Duration, u32, Vec<u8>)>;

/// The frame of a pcapng block; notes interfaces, skips what is no packet.
fn ng_frame(block: &Block<'_>, interfaces: &mut Vec<Interface>) -> Result<Found, &'static str> {
    match block {
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(description) => interfaces.push(Interface::new(description)),
        Block::EnhancedPacket(packet) => {
            let Some(interface) = interfaces.get(packet.if_id as usize) else {
                return Err("a packet names an interface that was not described");
            };
            let time = interface.time(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
            return Ok(Some((
                interface.link,
                time,
                packet.origlen,
                packet.packet_data().to_vec(),
            )));
        }
        Block::SimplePacket(packet) => {
            let Some(interface) = interfaces.first() else {
                return Err("a packet stands before any interface description");
            };
            let data = packet.packet_data();
            let bytes = data[..data.len().min(interface.snap_length)].to_vec();
            return Ok(Some((interface.link, Duration::ZERO, packet.origlen, bytes)));
        }
        _ => {}
    }
    Ok(None)
}

/// Writes frames into a pcap file with time stamps in nanoseconds (magic 0xA1B23C4D, little-endian).
#[derive(Debug)]
pub struct Writer<W: Write> {
    sink: W,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(mut sink: W) -> io::Result<Self> {
        sink.write_all(&0xA1B2_3C4D_u32.to_le_bytes())?;
        sink.write_all(&2u16.to_le_bytes())?; // version 2.4
        sink.write_all(&4u16.to_le_bytes())?;
        sink.write_all(&[0; 8])?; // time zone and accuracy
        sink.write_all(&SNAP_LENGTH.to_le_bytes())?;
        sink.write_all(&1u32.to_le_bytes())?; // Ethernet
        Ok(Self { sink })
    }

    /// Appends a frame at a time since 1970-01-01 UTC.
    ///
    /// # Errors
    /// What the sink says; [`io::ErrorKind::InvalidInput`] for a frame over 262,144 bytes or a time after 2106, which
    /// the format cannot hold.
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> io::Result<()> {
        let seconds = u32::try_from(time.as_secs())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "pcap holds times up to the year 2106"))?;
        let length = u32::try_from(frame.len())
            .ok()
            .filter(|length| *length <= SNAP_LENGTH)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "frame is longer than 262,144 bytes"))?;
        for number in [seconds, time.subsec_nanos(), length, length] {
            self.sink.write_all(&number.to_le_bytes())?;
        }
        self.sink.write_all(frame)
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// What the sink says.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}
