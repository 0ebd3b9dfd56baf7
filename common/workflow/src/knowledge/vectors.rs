//! Embedding vectors: of length 1, compared by their cosine, stored as text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Scales a vector to length 1; a zero vector stays as it is.
pub fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|it| *it = (f64::from(*it) / length) as f32);
    }
    vector
}

/// Returns the cosine of two vectors of length 1.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    // Eight independent sums: with a single one each addition would wait for the one before.
    const LANES: usize = 8;
    let (mut a_chunks, mut b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a_chunks.by_ref().zip(b_chunks.by_ref()) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// Encodes a vector as text: 32-bit floats, little-endian, in base64.
pub fn to_text(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

/// Decodes the text of [`to_text`]; `None` when it is invalid.
pub fn from_text(text: &str) -> Option<Vec<f32>> {
    let bytes = STANDARD.decode(text).ok()?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_keep_their_numbers_as_text_and_their_direction_as_units() {
        let vector: Vec<f32> = (0..19_u8).map(|n| f32::from(n) - 3.5).collect();
        assert_eq!(from_text(&to_text(&vector)), Some(vector.clone()));
        assert!(from_text("?").is_none() && from_text("AAA=").is_none());
        let one = unit(vector.clone());
        assert!((cosine(&one, &one) - 1.0).abs() < 1e-5);
        let turned: Vec<f32> = one.iter().map(|it| -it).collect();
        assert!((cosine(&one, &turned) + 1.0).abs() < 1e-5);
        assert_eq!(unit(vec![0.0, 0.0]), [0.0, 0.0]);
    }
}
