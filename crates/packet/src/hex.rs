//! Bytes of a packet from hexadecimal digits.

use crate::MAX_FRAME;

/// Number of characters that an error shows on either side of a wrong digit.
const SHOWN: usize = 30;

/// Parses hexadecimal digits. Blanks and colons between digits are ignored, and so is a leading
/// `0x`.
///
/// # Errors
/// A message that marks the wrong position.
pub fn bytes_from_hex(text: &str) -> Result<Vec<u8>, String> {
    let mut digits: Vec<u8> = Vec::new();
    let mut last = 0;
    let start = match text.trim_start() {
        rest if rest.starts_with("0x") || rest.starts_with("0X") => text.len() - rest.len() + 2,
        _ => 0,
    };
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < start) {
        if c.is_whitespace() || c == ':' {
            continue;
        }
        let Some(digit) = c.to_digit(16) else {
            let fault = format!("{c:?} is no hexadecimal digit");
            return Err(marked(&fault, text, at));
        };
        digits.push(digit as u8);
        last = at;
    }
    if digits.is_empty() {
        return Err("it has no bytes: write them as hexadecimal digits, two for each".to_owned());
    }
    if digits.len() % 2 == 1 {
        let are = match digits.len() {
            1 => "1 digit is".to_owned(),
            count => format!("{count} digits are"),
        };
        let fault = format!("{are} no whole bytes: the last digit stands alone");
        return Err(marked(&fault, text, last));
    }
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    match bytes.len() {
        len if len > MAX_FRAME => Err(format!(
            "it has {len} bytes; a frame has at most {MAX_FRAME}"
        )),
        _ => Ok(bytes),
    }
}

/// Formats an error, and below it the text around byte `at` with a mark.
fn marked(fault: &str, text: &str, at: usize) -> String {
    let position = text[..at].chars().count();
    let from = position.saturating_sub(SHOWN);
    let characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let shown: String = characters.skip(from).take(2 * SHOWN).collect();
    let blanks = " ".repeat(position - from);
    format!(
        "{fault} (character {})\n  {shown}\n  {blanks}^",
        position + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_bytes_or_the_fault_is_marked() {
        let check = |text: &str, expect: Result<&[u8], &str>| {
            let got = bytes_from_hex(text);
            assert_eq!(
                got.as_deref(),
                expect.map_err(str::to_owned).as_ref().copied(),
                "{text}"
            );
        };
        check("00fF", Ok(&[0, 255]));
        check("0x00 01:02\n03", Ok(&[0, 1, 2, 3]));
        check(
            "00 0g",
            Err("'g' is no hexadecimal digit (character 5)\n  00 0g\n      ^"),
        );
        check(
            "0x00x",
            Err("'x' is no hexadecimal digit (character 5)\n  0x00x\n      ^"),
        );
        check(
            "001 ",
            Err(
                "3 digits are no whole bytes: the last digit stands alone (character 3)\n  001 \n    ^",
            ),
        );
        check(
            " ",
            Err("it has no bytes: write them as hexadecimal digits, two for each"),
        );
        let long = format!("{}é{}", "ab".repeat(50), "cd".repeat(50));
        let shown = format!("  {}é{}", "ab".repeat(15), &"cd".repeat(15)[..29]);
        let fault = format!(
            "'é' is no hexadecimal digit (character 101)\n{shown}\n  {}^",
            " ".repeat(30)
        );
        check(&long, Err(&fault));
        let fault = format!(
            "it has {} bytes; a frame has at most {MAX_FRAME}",
            MAX_FRAME + 1
        );
        check(&"00".repeat(MAX_FRAME + 1), Err(&fault));
    }
}
