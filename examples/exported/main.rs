// The same from Rust, through the C ABI: no crate is needed. Beside this file:
//
//   fusegen export softmax_topk --k 5 -o softmax_topk
//   rustc main.rs -L softmax_topk/lib -l fusegen_softmax_topk -C link-arg=-Wl,-rpath,$PWD/softmax_topk/lib && ./main

use std::ffi::{c_char, c_int, CStr};

extern "C" {
    fn softmax_topk_float32_cpu(
        x: *const f32, x_stride: i64, values: *mut f32, indices: *mut i64, n_rows: i64, n_cols: i64, threads: c_int,
    ) -> c_int;
    fn softmax_topk_error() -> *const c_char;
}

/// The five greatest probabilities of every row, and their columns.
fn softmax_topk(x: &[f32], n_cols: usize) -> Result<(Vec<f32>, Vec<i64>), String> {
    let n_rows = x.len() / n_cols;
    assert_eq!(n_rows * n_cols, x.len());
    let (mut values, mut indices) = (vec![0.0; n_rows * 5], vec![0; n_rows * 5]);
    // SAFETY: x has n_rows rows of n_cols, the results 5 entries a row; what else has to hold is checked there.
    unsafe {
        let status = softmax_topk_float32_cpu(
            x.as_ptr(), n_cols as i64, values.as_mut_ptr(), indices.as_mut_ptr(), n_rows as i64, n_cols as i64, 0);
        match status {
            0 => Ok((values, indices)),
            _ => Err(CStr::from_ptr(softmax_topk_error()).to_string_lossy().into_owned()),
        }
    }
}

fn main() {
    let (n_rows, n_cols) = (300, 1000);
    let x: Vec<f32> = (0..n_rows * n_cols).map(|i| ((i as f64 * i as f64).sin() * 4.0) as f32).collect();
    let (values, indices) = softmax_topk(&x, n_cols).unwrap();
    let mut worst = 0.0_f64;
    for (row, (v, i)) in x.chunks(n_cols).zip(values.chunks(5).zip(indices.chunks(5))) {
        let sum: f64 = row.iter().map(|&one| (one as f64).exp()).sum();
        let mut sorted = row.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        for k in 0..5 {
            assert_eq!(row[i[k] as usize], sorted[k]);
            worst = worst.max((v[k] as f64 * sum / (sorted[k] as f64).exp() - 1.0).abs());
        }
    }
    println!("{n_rows} rows, greatest relative error {worst:.1e}");
    assert!(worst < 1e-5);
    println!("3 columns: {}", softmax_topk(&[0.0; 3], 3).unwrap_err());
}
