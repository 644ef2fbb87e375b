//! Pool of reusable frames.

use crate::Frame;

/// Pool of empty frames. Once it holds as many as its user has in flight, nothing is allocated.
#[derive(Debug, Default)]
pub struct FramePool {
    free: Vec<Frame>,
    made: u64,
    growths: u64,
}

impl FramePool {
    /// Creates a pool with `n` free frames.
    pub fn with_frames(n: usize) -> FramePool {
        let mut free = Vec::with_capacity(n.saturating_mul(2));
        free.resize_with(n, Frame::new);
        FramePool {
            free,
            made: n as u64,
            growths: 0,
        }
    }

    /// Returns an empty frame: a free one, or a new one if there is none.
    #[inline]
    pub fn get(&mut self) -> Frame {
        match self.free.pop() {
            Some(frame) => frame,
            None => self.make(),
        }
    }

    /// Takes a frame back. Its bytes are discarded, its buffer is kept.
    #[inline]
    pub fn put(&mut self, mut frame: Frame) {
        frame.reset();
        self.growths += u64::from(frame.take_growths());
        self.free.push(frame);
    }

    /// Returns the number of free frames.
    pub fn in_stock(&self) -> usize {
        self.free.len()
    }

    /// Returns the number of frames that the pool has allocated.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Returns how many times the buffers of returned frames grew, or their bytes were moved.
    pub fn growths(&self) -> u64 {
        self.growths
    }

    #[cold]
    fn make(&mut self) -> Frame {
        self.made += 1;
        Frame::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_pool_makes_no_frames() {
        let mut pool = FramePool::with_frames(2);
        for _ in 0..100 {
            let (mut a, b, c) = (pool.get(), pool.get(), pool.get());
            a.assign(&[1; 60]).unwrap();
            pool.put(a);
            pool.put(b);
            pool.put(c);
        }
        assert_eq!((pool.made(), pool.in_stock()), (3, 3));
        assert!(pool.get().is_empty());
    }

    #[test]
    fn growth_is_counted_when_a_frame_comes_back() {
        let mut pool = FramePool::default();
        let mut frame = pool.get();
        frame.assign(&[0; 9000]).unwrap();
        pool.put(frame);
        assert_eq!(pool.growths(), 1);
    }
}
