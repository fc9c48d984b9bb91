//! `spraynic decode`: a capture, a line a frame, with the verdict on its ICRC.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use spraynic_wire::network::{Ip, VlanTag};
use spraynic_wire::pcap::{CaptureError, CapturedFrame, Reader};
use spraynic_wire::{Bth, Extension, Packet, ParseError, icrc};

use crate::error::{CliError, Verdict};
use crate::progress::Progress;

/// Print a pcap or pcapng capture, a line a frame, with the verdict on each ICRC
///
/// Exit status 1 when an ICRC is wrong, a RoCEv2 frame is malformed, or the file is damaged or cut off.
#[derive(Debug, Args)]
pub(crate) struct DecodeCommand {
    /// Capture; `-` is standard input
    file: PathBuf,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// What a frame is.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Content {
    /// A RoCEv2 packet.
    Roce(Box<Roce>),
    /// Not RoCEv2.
    Other { reason: String },
    /// RoCEv2, but wrong.
    Malformed { reason: String },
    /// The capture kept only the beginning of the frame: nothing can be said.
    Snapped { captured_bytes: usize },
}

#[derive(Debug, Serialize)]
struct Roce {
    source: String,
    destination: String,
    source_port: u16,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlan: Vec<u16>,
    traffic_class: u8,
    opcode: u8,
    operation: &'static str,
    #[serde(flatten)]
    bth: BthFields,
    headers: Vec<Map<String, Value>>,
    payload_bytes: usize,
    pad_bytes: u8,
    icrc: Icrc,
    #[serde(skip)]
    extensions: Vec<Extension>,
}

#[derive(Debug, Serialize)]
struct BthFields {
    destination_qpn: u32,
    psn: u32,
    partition_key: u16,
    solicited: bool,
    migration: bool,
    fecn: bool,
    becn: bool,
    ack_request: bool,
    retransmission: bool,
    timestamped: bool,
}

#[derive(Debug, Serialize)]
struct Icrc {
    valid: bool,
    found: String,
    right: String,
}

#[derive(Debug, Serialize)]
struct Line {
    number: u64,
    /// Seconds since 1970-01-01 UTC, to the nanosecond: text, because a JSON number would lose digits.
    time: String,
    bytes: usize,
    #[serde(flatten)]
    content: Content,
}

/// How many frames were of each sort.
#[derive(Debug, Default)]
struct Totals {
    roce: u64,
    wrong_icrc: u64,
    malformed: u64,
    other: u64,
    snapped: u64,
}

impl DecodeCommand {
    pub(crate) fn run(&self) -> Result<Verdict, CliError> {
        let wrong = |error: CaptureError| CliError::Content {
            path: self.file.clone(),
            message: error.to_string(),
        };
        let standard_input = self.file == Path::new("-");
        let reader = if standard_input {
            Reader::new(std::io::stdin())
        } else {
            // Opened here for the system's own words about a missing or forbidden file.
            let refused = || CliError::file(&self.file, "open the capture");
            if self.file.is_dir() {
                return Err(refused()(std::io::ErrorKind::IsADirectory.into()));
            }
            let file = std::fs::File::open(&self.file).map_err(refused())?;
            Reader::new(file)
        }
        .map_err(wrong)?;
        let length = std::fs::metadata(&self.file).ok().map(|metadata| metadata.len());
        let progress = Progress::new("decoding", length.unwrap_or(0));
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut totals = Totals::default();
        for frame in reader {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    // What came before stays printed.
                    out.flush()?;
                    return Err(wrong(error));
                }
            };
            progress.set(frame.offset);
            let line = Line {
                number: frame.number,
                time: format!("{}.{:09}", frame.time.as_secs(), frame.time.subsec_nanos()),
                bytes: frame.original_length,
                content: content(&frame),
            };
            totals.count(&line.content);
            if self.json {
                serde_json::to_writer(&mut out, &line).map_err(std::io::Error::from)?;
                writeln!(out)?;
            } else {
                print(&mut out, &line)?;
            }
        }
        out.flush()?;
        progress.finish();
        if !self.json {
            eprintln!("{}", totals.sentence());
        }
        Ok(if totals.wrong_icrc + totals.malformed > 0 {
            Verdict::FailureFound
        } else {
            Verdict::Good
        })
    }
}

impl Totals {
    fn count(&mut self, content: &Content) {
        match content {
            Content::Roce(packet) => {
                self.roce += 1;
                self.wrong_icrc += u64::from(!packet.icrc.valid);
            }
            Content::Malformed { .. } => self.malformed += 1,
            Content::Other { .. } => self.other += 1,
            Content::Snapped { .. } => self.snapped += 1,
        }
    }

    fn sentence(&self) -> String {
        let total = self.roce + self.malformed + self.other + self.snapped;
        format!(
            "{total} frames: {} RoCEv2 ({} with a wrong ICRC), {} malformed, {} cut by the capture, {} other",
            self.roce, self.wrong_icrc, self.malformed, self.snapped, self.other
        )
    }
}

impl BthFields {
    fn new(bth: &Bth) -> Self {
        Self {
            destination_qpn: bth.destination_qpn,
            psn: bth.psn.value(),
            partition_key: bth.partition_key,
            solicited: bth.solicited,
            migration: bth.migration,
            fecn: bth.fecn,
            becn: bth.becn,
            ack_request: bth.ack_request,
            retransmission: bth.retransmission,
            timestamped: bth.timestamped,
        }
    }

    /// The bits that say something when set, with their names.
    fn flags(&self) -> [(bool, &'static str); 6] {
        [
            (self.solicited, "solicited"),
            (self.ack_request, "ack-req"),
            (self.fecn, "fecn"),
            (self.becn, "becn"),
            (self.retransmission, "rtx"),
            (self.timestamped, "ts"),
        ]
    }
}

fn content(frame: &CapturedFrame) -> Content {
    let packet = match Packet::parse(&frame.bytes, None) {
        Ok(packet) => packet,
        Err(error @ (ParseError::NotIp(_) | ParseError::NotUdp(_) | ParseError::NotRoce(_))) => {
            return Content::Other {
                reason: error.to_string(),
            };
        }
        Err(_) if frame.bytes.len() < frame.original_length => {
            return Content::Snapped {
                captured_bytes: frame.bytes.len(),
            };
        }
        Err(error) => {
            return Content::Malformed {
                reason: error.to_string(),
            };
        }
    };
    match icrc::verify(&frame.bytes) {
        Ok(verdict) => Content::Roce(Box::new(Roce::new(&packet, verdict))),
        Err(error) => Content::Malformed {
            reason: error.to_string(),
        },
    }
}

impl Roce {
    fn new(packet: &Packet, verdict: icrc::Verdict) -> Self {
        let (source, destination) = match &packet.ip {
            Ip::V4(ip) => (ip.source.to_string(), ip.destination.to_string()),
            Ip::V6(ip) => (ip.source.to_string(), ip.destination.to_string()),
        };
        Self {
            source,
            destination,
            source_port: packet.udp_source_port,
            vlan: packet.ethernet.vlans.iter().map(|tag: &VlanTag| tag.id()).collect(),
            traffic_class: packet.ip.traffic_class(),
            opcode: packet.bth.opcode.0,
            operation: packet.info().map_or("unknown", |info| info.name),
            bth: BthFields::new(&packet.bth),
            headers: packet.extensions.iter().map(header).collect(),
            payload_bytes: packet.payload.len(),
            pad_bytes: packet.bth.pad_count,
            icrc: Icrc {
                valid: verdict.is_valid(),
                found: format!("{:08x}", verdict.found),
                right: format!("{:08x}", verdict.right),
            },
            extensions: packet.extensions.clone(),
        }
    }
}

/// An extension header's fields by name. Those of more than 53 bits are text: a JSON number would lose digits.
fn header(extension: &Extension) -> Map<String, Value> {
    let kind = extension.kind();
    let mut fields = Map::new();
    fields.insert("header".to_owned(), kind.name().into());
    for (field, value) in kind.fields().iter().zip(extension.values()) {
        let value = if field.width > 53 {
            Value::from(format!("0x{value:x}"))
        } else {
            Value::from(value)
        };
        fields.insert(field.name.to_owned(), value);
    }
    fields
}

fn print(out: &mut impl Write, line: &Line) -> std::io::Result<()> {
    write!(out, "{:>6} {} ", line.number, line.time)?;
    match &line.content {
        Content::Roce(packet) => {
            write!(
                out,
                "{}.{} > {} {} qp 0x{:06x} psn {}",
                packet.source,
                packet.source_port,
                packet.destination,
                packet.operation,
                packet.bth.destination_qpn,
                packet.bth.psn
            )?;
            for (set, name) in packet.bth.flags() {
                if set {
                    write!(out, " {name}")?;
                }
            }
            for tag in &packet.vlan {
                write!(out, " vlan {tag}")?;
            }
            for extension in &packet.extensions {
                write!(out, " {extension}")?;
            }
            write!(out, " payload {}", packet.payload_bytes)?;
            if packet.pad_bytes > 0 {
                write!(out, "+{}", packet.pad_bytes)?;
            }
            if packet.icrc.valid {
                writeln!(out, " icrc ok")
            } else {
                writeln!(
                    out,
                    " icrc WRONG: {}, should be {}",
                    packet.icrc.found, packet.icrc.right
                )
            }
        }
        Content::Other { reason } => writeln!(out, "{} bytes, not RoCEv2: {reason}", line.bytes),
        Content::Malformed { reason } => writeln!(out, "{} bytes, MALFORMED: {reason}", line.bytes),
        Content::Snapped { captured_bytes } => writeln!(
            out,
            "{} bytes, of which the capture has {captured_bytes}: not checked",
            line.bytes
        ),
    }
}
