//! The stream prefetcher: pages accessed in one direction, and how far ahead each has been prefetched.

use serde::{Deserialize, Serialize};

use super::{PAGE_LINES, Targets};

/// Steps in one direction that make a stream.
const CONFIDENT: u8 = 2;

/// Stream table entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// Last line accessed; it also identifies the page.
    last: u32,
    /// Farthest line prefetched.
    front: u32,
    /// 1 or -1; 0 until a second line is accessed.
    direction: i8,
    /// Steps in this direction.
    steps: u8,
}

/// Tracked pages, most recently used first.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pages: Vec<Stream>,
    most: usize,
    /// Maximum distance in lines.
    ahead: u32,
}

impl Streams {
    pub fn new(most: usize, ahead: u32) -> Streams {
        Streams { pages: Vec::with_capacity(most), most, ahead }
    }

    /// Trains on an access to a line, and adds up to `degree` lines ahead of it to `targets`.
    pub fn train(&mut self, line: u32, degree: i64, targets: &mut Targets) {
        let Some(at) = self.pages.iter().position(|page| page.last / PAGE_LINES == line / PAGE_LINES) else {
            self.pages.truncate(self.most - 1);
            self.pages.insert(0, Stream { last: line, front: line, direction: 0, steps: 0 });
            return;
        };
        self.pages[..=at].rotate_right(1);
        let page = &mut self.pages[0];
        let direction = match line.cmp(&page.last) {
            std::cmp::Ordering::Less => -1,
            std::cmp::Ordering::Equal => return,
            std::cmp::Ordering::Greater => 1,
        };
        page.last = line;
        if direction == page.direction {
            page.steps = (page.steps + 1).min(CONFIDENT);
        } else {
            (page.direction, page.steps, page.front) = (direction, 1, line);
        }
        if page.steps < CONFIDENT {
            return;
        }
        // The accesses may have overtaken the prefetches.
        page.front = if direction > 0 { page.front.max(line) } else { page.front.min(line) };
        let mut target = i64::from(page.front);
        for _ in 0..degree {
            target += i64::from(direction);
            if target.abs_diff(i64::from(line)) > u64::from(self.ahead) || !targets.add(line, target) {
                break;
            }
            page.front = target as u32;
        }
    }

    pub fn save(&self) -> Vec<Stream> {
        self.pages.clone()
    }

    pub fn check(&self, pages: &[Stream], lines: u32) -> Result<(), String> {
        let possible = |page: &Stream| {
            page.last < lines
                && page.last / PAGE_LINES == page.front / PAGE_LINES
                && page.direction.abs() <= 1
                && page.steps <= CONFIDENT
        };
        match pages.len() <= self.most && pages.iter().all(possible) {
            true => Ok(()),
            false => Err("impossible streams".to_owned()),
        }
    }

    pub fn restore(&mut self, pages: Vec<Stream>) {
        self.pages = pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetched(streams: &mut Streams, line: u32, degree: i64) -> Vec<u32> {
        let mut targets = Targets::default();
        streams.train(line, degree, &mut targets);
        targets.as_slice().to_vec()
    }

    #[test]
    fn a_stream_is_followed_from_its_second_step_up_to_the_maximum_distance() {
        let mut streams = Streams::new(4, 6);
        assert!(prefetched(&mut streams, 64, 2).is_empty());
        assert!(prefetched(&mut streams, 65, 2).is_empty(), "one step is no stream");
        assert_eq!(prefetched(&mut streams, 66, 2), [67, 68]);
        assert_eq!(prefetched(&mut streams, 67, 2), [69, 70]);
        assert_eq!(prefetched(&mut streams, 68, 2), [71, 72]);
        assert_eq!(prefetched(&mut streams, 69, 2), [73, 74]);
        assert_eq!(prefetched(&mut streams, 70, 2), [75, 76], "six ahead");
        assert_eq!(prefetched(&mut streams, 71, 2), [77], "and no more");
        assert!(prefetched(&mut streams, 71, 2).is_empty(), "the same line again");
        assert_eq!(prefetched(&mut streams, 90, 2), [91, 92], "accesses have overtaken the prefetches");
    }

    #[test]
    fn streams_run_backwards_end_with_the_page_and_can_turn() {
        let mut streams = Streams::new(4, 20);
        [5, 4].iter().for_each(|line| _ = prefetched(&mut streams, *line, 4));
        assert_eq!(prefetched(&mut streams, 3, 4), [2, 1, 0]);
        assert!(prefetched(&mut streams, 2, 4).is_empty(), "the page is over");
        assert!(prefetched(&mut streams, 10, 4).is_empty(), "another direction");
        assert_eq!(prefetched(&mut streams, 12, 2), [13, 14], "lines may be left out");
    }

    #[test]
    fn the_table_holds_its_number_of_pages_and_replaces_the_oldest() {
        let mut streams = Streams::new(2, 20);
        for page in [0, 1] {
            [0, 1].iter().for_each(|line| _ = prefetched(&mut streams, page * 64 + line, 1));
        }
        assert_eq!(prefetched(&mut streams, 2, 1), [3]);
        prefetched(&mut streams, 3 * 64, 1);
        assert!(prefetched(&mut streams, 64 + 2, 1).is_empty(), "page 1 was the oldest");
        assert!(prefetched(&mut streams, 3, 1).is_empty(), "and then page 0");
    }
}
