//! Images: RV64 ELF files, checked once.

use std::fmt;

use object::LittleEndian;
use object::elf::{EM_RISCV, ET_EXEC, FileHeader64, PT_DYNAMIC, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, Sym};

use crate::cache::LINE_BYTES;
use crate::memory::{MEMORY_BASE, Memory};

/// Symbols of an image that are kept, at most.
const MAX_SYMBOLS: usize = 1 << 16;
/// Bytes of a symbol's name; symbols with longer ones are skipped.
const MAX_SYMBOL_BYTES: usize = 256;

/// Part of an image that is copied to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    address: u64,
    bytes: Vec<u8>,
}

/// A checked program: where it starts, and what memory has before it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    entry: u64,
    segments: Vec<Segment>,
    /// First address after the last segment, with its zeros.
    end: u64,
    symbols: Vec<(String, u64)>,
}

impl Image {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file is not a statically linked RV64 executable, or a part of it is outside of a memory
    /// of `memory_bytes` bytes at [`MEMORY_BASE`].
    pub fn parse(file: &[u8], memory_bytes: usize) -> Result<Self, ImageError> {
        let header = FileHeader64::<LittleEndian>::parse(file).map_err(|_| ImageError::NotElf64)?;
        // The class and the byte order are checked by `endian`.
        let endian = header.endian().map_err(|_| ImageError::NotElf64)?;
        let machine = header.e_machine(endian);
        if machine != EM_RISCV {
            return Err(ImageError::NotRiscV { machine: machine.0 });
        }
        if header.e_type(endian) != ET_EXEC {
            return Err(ImageError::NotExecutable);
        }
        let broken = |what| move |_| ImageError::Broken { what };
        let headers = header
            .program_headers(endian, file)
            .map_err(broken("the table of program headers"))?;
        let mut segments = Vec::new();
        let mut end = MEMORY_BASE;
        let mut total: usize = 0;
        for part in headers {
            let kind = part.p_type(endian);
            if kind == PT_INTERP || kind == PT_DYNAMIC {
                return Err(ImageError::Dynamic);
            }
            if kind != PT_LOAD {
                continue;
            }
            let bytes = part
                .data(endian, file)
                .map_err(|()| ImageError::Broken { what: "a segment" })?;
            let address = part.p_paddr(endian);
            let size = part.p_memsz(endian);
            if size < bytes.len() as u64 {
                return Err(ImageError::Broken {
                    what: "the size of a segment",
                });
            }
            if size == 0 {
                continue;
            }
            let last = address.checked_add(size);
            let inside = last.filter(|last| {
                address >= MEMORY_BASE && *last - MEMORY_BASE <= memory_bytes as u64
            });
            let Some(last) = inside else {
                return Err(ImageError::OutsideMemory {
                    address,
                    size,
                    memory_bytes,
                });
            };
            end = end.max(last);
            total = total.saturating_add(bytes.len());
            if total > memory_bytes {
                // Segments that overlap: memory cannot have all of their bytes.
                return Err(ImageError::TooManyBytes { memory_bytes });
            }
            segments.push(Segment {
                address,
                bytes: bytes.to_vec(),
            });
        }
        if segments.is_empty() {
            return Err(ImageError::Empty);
        }
        let entry = header.e_entry(endian);
        let inside = entry
            .checked_sub(MEMORY_BASE)
            .is_some_and(|at| at < memory_bytes as u64);
        if !inside || entry % 2 != 0 {
            return Err(ImageError::Entry { entry });
        }
        Ok(Self {
            entry,
            segments,
            end,
            symbols: read_symbols(header, endian, file),
        })
    }

    /// Returns the address of the first instruction.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Returns the first address after the image, rounded up to 16 bytes.
    pub fn end(&self) -> u64 {
        self.end.next_multiple_of(16)
    }

    /// Adds data on the first line after the program, where the program finds them by the end of
    /// its last section.
    ///
    /// # Errors
    /// Memory of `memory_bytes` bytes has no room for them.
    pub fn with_data(mut self, data: &[u8], memory_bytes: usize) -> Result<Self, ImageError> {
        let address = self.end.next_multiple_of(LINE_BYTES);
        let room = (MEMORY_BASE + memory_bytes as u64).saturating_sub(address);
        if data.len() as u64 > room {
            return Err(ImageError::DataOutsideMemory {
                bytes: data.len(),
                room,
                memory_bytes,
            });
        }
        self.end = address + data.len() as u64;
        self.segments.push(Segment {
            address,
            bytes: data.to_vec(),
        });
        Ok(self)
    }

    /// Returns the address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let found = self.symbols.iter().find(|(known, _)| known == name);
        found.map(|(_, address)| *address)
    }

    /// Copies the segments to memory. The memory has at least the size for which the image was
    /// checked.
    pub(crate) fn load(&self, memory: &mut Memory) {
        for segment in &self.segments {
            let written = memory.write(segment.address, &segment.bytes);
            debug_assert!(written.is_some(), "the image was checked for this memory");
        }
    }
}

/// Returns the names and addresses of named symbols. A broken table has none: programs run
/// without it.
fn read_symbols(
    header: &FileHeader64<LittleEndian>,
    endian: LittleEndian,
    file: &[u8],
) -> Vec<(String, u64)> {
    let Ok(sections) = header.sections(endian, file) else {
        return Vec::new();
    };
    let Ok(table) = sections.symbols(endian, file, object::elf::SHT_SYMTAB) else {
        return Vec::new();
    };
    let mut symbols = Vec::new();
    for symbol in table.iter() {
        let name = table.symbol_name(endian, symbol).ok();
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        if let Some(name) = name.filter(|name| (1..=MAX_SYMBOL_BYTES).contains(&name.len())) {
            symbols.push((name.to_owned(), symbol.st_value(endian)));
            if symbols.len() == MAX_SYMBOLS {
                break;
            }
        }
    }
    symbols
}

/// Reason for which a file is no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The file is not a little-endian ELF file of 64 bits.
    NotElf64,
    /// The file is for another machine.
    NotRiscV {
        /// Number of the machine in the file's header.
        machine: u16,
    },
    /// The file is an object or a shared object.
    NotExecutable,
    /// The file needs a dynamic linker.
    Dynamic,
    /// A part of the file is broken.
    Broken {
        /// Part.
        what: &'static str,
    },
    /// The file has nothing to load.
    Empty,
    /// A segment is outside of memory.
    OutsideMemory {
        /// First address.
        address: u64,
        /// Size in bytes.
        size: u64,
        /// Bytes of memory.
        memory_bytes: usize,
    },
    /// The segments together have more bytes than memory.
    TooManyBytes {
        /// Bytes of memory.
        memory_bytes: usize,
    },
    /// Memory has too little room after the program for data.
    DataOutsideMemory {
        /// Bytes of the data.
        bytes: usize,
        /// Bytes of memory after the program.
        room: u64,
        /// Bytes of memory.
        memory_bytes: usize,
    },
    /// The entry point is outside of memory or odd.
    Entry {
        /// Address.
        entry: u64,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf64 => write!(
                f,
                "not a little-endian ELF file of 64 bits; build it with riscv64-unknown-elf-gcc"
            ),
            Self::NotRiscV { machine } => write!(
                f,
                "the file is for machine {machine}, not for RISC-V (243); build it with riscv64-unknown-elf-gcc"
            ),
            Self::NotExecutable => write!(
                f,
                "the file is not an executable; link it with -static -nostdlib -no-pie"
            ),
            Self::Dynamic => write!(
                f,
                "the file needs a dynamic linker; link it with -static -nostdlib -no-pie"
            ),
            Self::Broken { what } => write!(f, "{what} is broken"),
            Self::Empty => write!(f, "the file has no segment to load"),
            Self::OutsideMemory {
                address,
                size,
                memory_bytes,
            } => write!(
                f,
                "a segment of {size} bytes at {address:#x} is outside of memory, which has {memory_bytes} bytes at {MEMORY_BASE:#x}; link with the linker script of the examples"
            ),
            Self::TooManyBytes { memory_bytes } => write!(
                f,
                "the segments have more bytes than memory, {memory_bytes}; link with the linker script of the examples, or give the device more memory"
            ),
            Self::DataOutsideMemory {
                bytes,
                room,
                memory_bytes,
            } => write!(
                f,
                "data of {bytes} bytes do not fit after the program: {room} of {memory_bytes} bytes of memory are left; give the device more memory"
            ),
            Self::Entry { entry } => {
                write!(f, "the entry point {entry:#x} is outside of memory or odd")
            }
        }
    }
}

impl std::error::Error for ImageError {}
