//! Doubly linked lists that run through the frames themselves.
//!
//! A frame is on at most one list at a time, so one pair of links for each frame serves every list there is.

/// No frame.
pub(crate) const NIL: u32 = u32::MAX;

/// The ends of a list. `first == NIL`, `last == NIL` and `len == 0` hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) len: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NIL, last: NIL, len: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }
}

/// Both links of a frame side by side: one cache line is touched, not two.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

/// The links of all frames.
#[derive(Clone)]
pub(crate) struct Links(Vec<Link>);

impl Links {
    /// Writes every link once, so that the pages of this table exist before the first allocation is timed.
    pub(crate) fn new(frames: u32) -> Links {
        Links(vec![Link { next: NIL, prev: NIL }; frames as usize])
    }

    pub(crate) fn push_front(&mut self, list: &mut List, at: u32) {
        self.0[at as usize] = Link { next: list.first, prev: NIL };
        match list.first {
            NIL => list.last = at,
            first => self.0[first as usize].prev = at,
        }
        list.first = at;
        list.len += 1;
    }

    pub(crate) fn push_back(&mut self, list: &mut List, at: u32) {
        self.0[at as usize] = Link { next: NIL, prev: list.last };
        match list.last {
            NIL => list.first = at,
            last => self.0[last as usize].next = at,
        }
        list.last = at;
        list.len += 1;
    }

    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let first = list.first;
        (first != NIL).then(|| {
            self.remove(list, first);
            first
        })
    }

    pub(crate) fn pop_back(&mut self, list: &mut List) -> Option<u32> {
        let last = list.last;
        (last != NIL).then(|| {
            self.remove(list, last);
            last
        })
    }

    /// Takes a frame off the list it is on.
    pub(crate) fn remove(&mut self, list: &mut List, at: u32) {
        let Link { next, prev } = self.0[at as usize];
        match prev {
            NIL => list.first = next,
            prev => self.0[prev as usize].next = next,
        }
        match next {
            NIL => list.last = prev,
            next => self.0[next as usize].prev = prev,
        }
        list.len -= 1;
    }

    /// Walks a list from its first frame.
    pub(crate) fn walk(&self, list: &List) -> impl Iterator<Item = u32> + '_ {
        let mut at = list.first;
        std::iter::from_fn(move || {
            let here = (at != NIL).then_some(at)?;
            at = self.0[here as usize].next;
            Some(here)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_in_and_out_at_both_ends_and_in_the_middle() {
        let (mut links, mut list) = (Links::new(8), List::EMPTY);
        for at in [3, 4] {
            links.push_back(&mut list, at);
        }
        links.push_front(&mut list, 1);
        links.push_back(&mut list, 7);
        assert_eq!(links.walk(&list).collect::<Vec<_>>(), [1, 3, 4, 7]);
        links.remove(&mut list, 4);
        assert_eq!((links.pop_front(&mut list), links.pop_back(&mut list), list.len), (Some(1), Some(7), 1));
        assert_eq!((links.pop_back(&mut list), links.pop_front(&mut list)), (Some(3), None));
        assert_eq!(list, List::EMPTY);
    }
}
