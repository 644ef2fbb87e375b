//! Printing of a policy on one line. Parsing the text gives the same policy.

use std::fmt;

use super::Joint;
use super::policy::{Branch, Comparison, Condition, Item, Operand, Policy, StepName, called};

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, &self.line)
    }
}

fn line(f: &mut fmt::Formatter<'_>, items: &[Item]) -> fmt::Result {
    joined(f, items, " -> ", |f, item| match item {
        Item::Step(step) => write!(f, "{step}"),
        Item::Branch(branch) => write!(f, "{branch}"),
    })
}

/// Writes items with a separator between them.
fn joined<T>(
    f: &mut fmt::Formatter<'_>,
    all: &[T],
    between: &str,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (number, one) in all.iter().enumerate() {
        if number > 0 {
            f.write_str(between)?;
        }
        write(f, one)?;
    }
    Ok(())
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if called(&self.source) != self.name {
            write!(f, "{}=", self.name)?;
        }
        match is_plain(&self.source) {
            true => f.write_str(&self.source),
            false => write!(f, "\"{}\"", self.source),
        }
    }
}

/// Returns true if a source needs no double quotes.
fn is_plain(source: &str) -> bool {
    let is_usual = |c: char| c.is_alphanumeric() || "_./-".contains(c);
    let is_read_otherwise = source.contains("->") || source.contains("//");
    !source.is_empty() && source.chars().all(is_usual) && !is_read_otherwise
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        joined(f, &self.arms, " | ", |f, arm| {
            write!(f, "{}: ", arm.condition)?;
            line(f, &arm.line)
        })?;
        if self.arms.is_empty() || !self.otherwise.is_empty() {
            let between = if self.arms.is_empty() { "" } else { " | " };
            write!(f, "{between}else: ")?;
            line(f, &self.otherwise)?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |f: &mut fmt::Formatter<'_>, inner: &Condition| match inner {
            Condition::Any(_) | Condition::All(_) => write!(f, "({inner})"),
            _ => write!(f, "{inner}"),
        };
        match self {
            Condition::Any(all) => joined(f, all, " || ", inner),
            Condition::All(all) => joined(f, all, " && ", inner),
            Condition::Not(one) => write!(f, "!({one})"),
            Condition::Compare(left, comparison, right) => {
                write!(f, "{left} {comparison} {right}")
            }
            Condition::Holds(operand) => write!(f, "{operand}"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Number(number) => f.write_str(&number.text),
            Operand::Field { name, bits, .. } => match bits {
                None => f.write_str(name),
                Some((high, low)) => write!(f, "{name}[{high}:{low}]"),
            },
            Operand::IsValid { header, .. } => write!(f, "{header}.isValid()"),
            Operand::And(left, right) => write!(f, "{left} & {right}"),
        }
    }
}

impl fmt::Display for Joint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Joint { step, apart } = self;
        match apart {
            None => write!(f, "{step} goes on with the headers as they are"),
            Some(reason) => write!(f, "{step} parses packets anew: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same_policy() {
        let texts = [
            "a -> b",
            "guard=nets/ip_sg.p4 -> fw.p4",
            "x=\"my files/fw.p4\" -> y=\"a->b\" -> z=\"c//d\" -> w=\"\"",
            "a -> [ingress_port == 3: qos.p4 -> guest=fw.p4 | hdr.ipv4.isValid() && hdr.ipv4.protocol != 0x11: ] -> b",
            "[a[7:0] & 0xf >= 3 || (b < 1 && !(c || d)) || !(e <= 2): x | f > 1: y | else: [g: z]]",
            "[else: ]",
        ];
        for text in texts {
            assert_eq!(Policy::read(text).unwrap().to_string(), text);
        }
        let loose = Policy::read("# why\n a->[ b==1 :c|else:d ] // so\n -> e").unwrap();
        assert_eq!(loose.to_string(), "a -> [b == 1: c | else: d] -> e");
    }
}
