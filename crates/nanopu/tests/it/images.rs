//! Images: what is accepted, what is refused and why, and that no bytes panic.

use nanopu::{CoreState, CostTable, Image, ImageError, MEMORY_BASE, SingleCore};
use proptest::prelude::*;

use crate::assembler::{MEMORY, elf_of, loopback, message};

fn refused(change: impl FnOnce(&mut Vec<u8>)) -> ImageError {
    let mut file = elf_of(&loopback());
    change(&mut file);
    Image::parse(&file, MEMORY).unwrap_err()
}

#[test]
fn an_image_that_is_not_rv64_is_refused_by_name() {
    assert_eq!(refused(Vec::clear), ImageError::NotElf64);
    assert_eq!(refused(|file| file[4] = 1), ImageError::NotElf64);
    assert_eq!(refused(|file| file[5] = 2), ImageError::NotElf64);
    assert_eq!(
        refused(|file| file[18] = 62),
        ImageError::NotRiscV { machine: 62 }
    );
    assert_eq!(refused(|file| file[16] = 3), ImageError::NotExecutable);
}

#[test]
fn an_image_outside_of_memory_is_refused_by_name() {
    let entry = MEMORY_BASE + 1;
    assert_eq!(refused(|file| file[24] = 1), ImageError::Entry { entry });
    assert!(matches!(
        refused(|file| file[64 + 24 + 3] = 0),
        ImageError::OutsideMemory { .. }
    ));
    assert!(matches!(
        refused(|file| file[64 + 40 + 7] = 0xff),
        ImageError::OutsideMemory { .. }
    ));
    assert!(matches!(
        refused(|file| file.truncate(130)),
        ImageError::Broken { .. }
    ));
}

#[test]
fn segments_with_more_bytes_than_memory_are_refused_by_name() {
    // 3000 headers for the same 400 bytes of the file: 1,200,000 bytes for a memory of 2^20.
    let mut file = elf_of(&loopback());
    file.resize(520, 0);
    let mut header = file[64..120].to_vec();
    for place in [32, 40] {
        header[place..place + 8].copy_from_slice(&400u64.to_le_bytes());
    }
    let table = (file.len() as u64).to_le_bytes();
    file[32..40].copy_from_slice(&table);
    file[56..58].copy_from_slice(&3000u16.to_le_bytes());
    file.extend(header.repeat(3000));
    let memory_bytes = MEMORY;
    assert_eq!(
        Image::parse(&file, MEMORY).unwrap_err(),
        ImageError::TooManyBytes { memory_bytes }
    );
    assert!(Image::parse(&file, 2 * MEMORY).is_ok());
}

#[test]
fn data_begin_on_the_first_line_after_the_program_and_need_room_there() {
    let image = Image::parse(&elf_of(&loopback()), MEMORY).unwrap();
    let place = image.end().next_multiple_of(64);
    let room = MEMORY_BASE + MEMORY as u64 - place;
    let data: Vec<u8> = (0..room).map(|at| at as u8).collect();
    let whole = image.clone().with_data(&data, MEMORY).unwrap();
    let core = SingleCore::new(&whole, MEMORY, &CostTable::default());
    assert_eq!(core.memory().slice(place, data.len()).unwrap(), data);
    assert_eq!(
        image.with_data(&[&data[..], &[1]].concat(), MEMORY),
        Err(ImageError::DataOutsideMemory {
            bytes: data.len() + 1,
            room,
            memory_bytes: MEMORY,
        })
    );
}

#[test]
fn the_shipped_loopback_answers_with_each_word_plus_one() {
    let file = include_bytes!("../../../../examples/nanopu/loopback.elf");
    let memory = 1 << 24;
    let image = Image::parse(file, memory).unwrap();
    let mut core = SingleCore::new(&image, memory, &CostTable::default());
    let bytes: Vec<u8> = (0..24).collect();
    core.deliver(1000, message(0, &bytes));
    let outputs = core.run(2000);
    let mut expected = bytes;
    for last in [7, 15, 23] {
        expected[last] += 1;
    }
    assert_eq!(outputs[1].1, nanopu::Output::Message(message(0, &expected)));
    assert_eq!(outputs[2].1, nanopu::Output::Done(0));
}

#[test]
fn the_shipped_detector_reports_an_outlier_and_no_other_report() {
    let file = include_bytes!("../../../../examples/nanopu/path_latency.elf");
    let memory = 1 << 24;
    let image = Image::parse(file, memory).unwrap();
    let mut core = SingleCore::new(&image, memory, &CostTable::default());
    let report = |latency: u64| {
        let mut bytes = 77u64.to_be_bytes().to_vec();
        bytes.extend(latency.to_be_bytes());
        message(0, &bytes)
    };
    for number in 0..20 {
        core.deliver(1000 * number, report(2000 + number));
    }
    core.deliver(21_000, report(9000));
    let outputs = core.run(30_000);
    let sent: Vec<_> = outputs
        .iter()
        .filter_map(|(_, output)| match output {
            nanopu::Output::Message(message) => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].peer_context, 1);
    assert_eq!(sent[0].bytes[8..], 9000u64.to_be_bytes());
}

#[test]
fn the_shipped_spreader_reports_a_source_of_many_destinations_once_and_no_other() {
    let file = include_bytes!("../../../../examples/nanopu/spreader.elf");
    let memory = 1 << 24;
    let image = Image::parse(file, memory).unwrap();
    let mut core = SingleCore::new(&image, memory, &CostTable::default());
    let spreads = 0x0a00_0001u64;
    let others = 0x0a00_0002u64;
    for number in 0..200u64 {
        let mut report = |source: u64, destination: u64| {
            let word = source << 32 | destination;
            let cycle = 10_000 + 1000 * number;
            core.deliver(cycle, message(0, &word.to_be_bytes()));
        };
        report(spreads, number);
        // Many reports of few destinations.
        report(others, number % 8);
    }
    let outputs = core.run(1_000_000);
    let sent: Vec<_> = outputs
        .iter()
        .filter_map(|(_, output)| match output {
            nanopu::Output::Message(message) => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(sent.len(), 1, "{:?}", core.state());
    assert_eq!(sent[0].bytes[..4], (spreads as u32).to_be_bytes());
    assert_eq!(sent[0].bytes[4..], 33u32.to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_of_an_image_panic(
        changes in prop::collection::vec((0usize..220, any::<u8>()), 0..8),
        code in prop::collection::vec(any::<u32>(), 1..40),
    ) {
        let mut words = loopback();
        words.splice(3..3, code);
        let mut file = elf_of(&words);
        for (place, value) in changes {
            if let Some(byte) = file.get_mut(place) {
                *byte = value;
            }
        }
        if let Ok(image) = Image::parse(&file, MEMORY) {
            let mut core = SingleCore::new(&image, MEMORY, &CostTable::default());
            core.deliver(10, message(0, &[1; 16]));
            core.run(3000);
            // Each cycle is in one part.
            prop_assert_eq!(core.parts().total(), core.cycle());
            if let CoreState::Faulted(fault) = core.state() {
                prop_assert!(fault.cycle <= core.cycle());
            }
        }
    }
}
