//! Reader of the symbols of an ELF object file: the undefined ones, and the writable variables.

/// Symbols of an object file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Names that the object needs from elsewhere. Weak ones are not in the list.
    pub(crate) undefined: Vec<String>,
    /// Names that it defines for others.
    pub(crate) defined: Vec<String>,
    /// Variables in writable memory: name and size in bytes.
    pub(crate) writable: Vec<(String, u64)>,
}

const SHT_SYMTAB: u32 = 2;
const SHF_WRITE: u64 = 1;
const SHN_UNDEF: u16 = 0;
const SHN_COMMON: u16 = 0xfff2;
const STT_SECTION: u8 = 3;
const STT_FILE: u8 = 4;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_TLS: u8 = 6;
const STT_NOTYPE: u8 = 0;
const STB_LOCAL: u8 = 0;
const STB_WEAK: u8 = 2;

/// Bytes of a file with checked access.
#[derive(Clone, Copy)]
struct Bytes<'f>(&'f [u8]);

impl<'f> Bytes<'f> {
    fn at(self, at: u64, len: u64) -> Option<&'f [u8]> {
        let at = usize::try_from(at).ok()?;
        let len = usize::try_from(len).ok()?;
        self.0.get(at..at.checked_add(len)?)
    }

    fn number<const N: usize>(self, at: u64) -> Option<[u8; N]> {
        self.at(at, N as u64)?.try_into().ok()
    }

    fn u16(self, at: u64) -> Option<u16> {
        self.number(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: u64) -> Option<u32> {
        self.number(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: u64) -> Option<u64> {
        self.number(at).map(u64::from_le_bytes)
    }

    /// Returns the text that starts at `at` and ends with a zero byte.
    fn text(self, at: u64) -> Option<&'f str> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// Section of the object.
struct Section<'f> {
    name: &'f str,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
    link: u32,
}

/// Reads the symbols of a 64-bit little-endian ELF object. Returns `None` if it is none.
pub(crate) fn read(file: &[u8]) -> Option<Symbols> {
    let file = Bytes(file);
    if file.at(0, 6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
        return None;
    }
    let table = file.u64(0x28)?;
    let (count, names) = (file.u16(0x3c)?, file.u16(0x3e)?);
    let header = |index: u64| table.checked_add(index.checked_mul(64)?);
    let names = file.u64(header(names.into())?.checked_add(0x18)?)?;
    let mut sections = Vec::new();
    for index in 0..count.into() {
        let at = header(index)?;
        sections.push(Section {
            name: file.text(names.checked_add(file.u32(at)?.into())?)?,
            kind: file.u32(at + 4)?,
            flags: file.u64(at + 8)?,
            offset: file.u64(at + 0x18)?,
            size: file.u64(at + 0x20)?,
            link: file.u32(at + 0x28)?,
        });
    }
    let mut symbols = Symbols::default();
    for section in sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
        let strings = sections.get(section.link as usize)?.offset;
        for index in 1..section.size / 24 {
            let at = section.offset.checked_add(index * 24)?;
            let name = file.text(strings.checked_add(file.u32(at)?.into())?)?;
            let info = file.number::<1>(at + 4)?[0];
            let (place, size) = (file.u16(at + 6)?, file.u64(at + 16)?);
            symbols.add(&sections, name, info, place, size);
        }
    }
    Some(symbols)
}

impl Symbols {
    fn add(&mut self, sections: &[Section<'_>], name: &str, info: u8, place: u16, size: u64) {
        let (binding, kind) = (info >> 4, info & 0xf);
        if name.is_empty() || [STT_SECTION, STT_FILE].contains(&kind) {
            return;
        }
        if place == SHN_UNDEF {
            if binding != STB_WEAK && binding != STB_LOCAL {
                self.undefined.push(name.to_owned());
            }
            return;
        }
        if binding != STB_LOCAL {
            self.defined.push(name.to_owned());
        }
        if place == SHN_COMMON {
            return self.writable.push((name.to_owned(), size));
        }
        let Some(section) = sections.get(usize::from(place)) else {
            return;
        };
        // The loader makes `.data.rel.ro` read-only once it has relocated it.
        let is_constant =
            section.flags & SHF_WRITE == 0 || section.name.starts_with(".data.rel.ro");
        let is_variable = [STT_OBJECT, STT_TLS, STT_NOTYPE].contains(&kind) && kind != STT_FUNC;
        if is_variable && !is_constant {
            self.writable.push((name.to_owned(), size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_refused_without_a_panic() {
        assert_eq!(read(b""), None);
        assert_eq!(read(b"\x7fELF\x02\x01"), None);
        let mut random = support::rng::INCREMENT;
        for _ in 0..2_000 {
            let mut file = b"\x7fELF\x02\x01".to_vec();
            file.resize(400, 0);
            for byte in &mut file[6..] {
                random = support::rng::mix(random.wrapping_add(1));
                *byte = if random & 0x300 == 0 { random as u8 } else { 0 };
            }
            let _ = read(&file);
        }
    }
}
