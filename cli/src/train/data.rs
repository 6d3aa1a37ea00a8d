//! The digits: 8×8 pixels, values 0 to 16, ten classes (data/README.md says where from).

use anyhow::{Context as _, Result, bail};
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Pixels along each side.
pub const SIDE: usize = 8;
/// Pixels of a digit.
pub const PIXELS: usize = SIDE * SIDE;
/// Classes.
pub const CLASSES: usize = 10;

static FILE: &[u8] = include_bytes!("../../data/digits.csv.gz");

/// A digit with its label.
#[derive(Clone, Debug)]
pub struct Digit {
    /// Row-major, scaled to 0..=1.
    pub pixels: [f32; PIXELS],
    /// 0 to 9.
    pub label: usize,
}

/// All digits, shuffled, cut into a training and a test set of 80 and 20 %.
pub fn split(rng: &mut Xoshiro256PlusPlus) -> Result<(Vec<Digit>, Vec<Digit>)> {
    let mut digits = load()?;
    digits.shuffle(rng);
    let test = digits.split_off(digits.len() * 4 / 5);
    Ok((digits, test))
}

fn load() -> Result<Vec<Digit>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(flate2::read::GzDecoder::new(FILE));
    reader.deserialize::<Vec<f32>>().map(|row| digit(&row.context("reading the digits")?)).collect()
}

fn digit(row: &[f32]) -> Result<Digit> {
    let [values @ .., label] = row else { bail!("expected {} numbers a digit, given none", PIXELS + 1) };
    let Ok(values) = <[f32; PIXELS]>::try_from(values) else {
        bail!("expected {PIXELS} pixels a digit, given {}", values.len());
    };
    Ok(Digit { pixels: values.map(|value| value / 16.0), label: *label as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn all_digits_are_there() {
        let (train, test) = split(&mut Xoshiro256PlusPlus::seed_from_u64(1)).unwrap();
        assert_eq!((train.len(), test.len()), (1437, 360));
        assert!(
            train.iter().all(|digit| digit.label < CLASSES && digit.pixels.iter().all(|p| (0.0..=1.0).contains(p)))
        );
    }
}
