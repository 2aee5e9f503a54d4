//! Do schedulers do for the requesters what their papers promise?

use memtint_dram::{
    BankIndex, Completion, Controller, ControllerConfig, Cycle, Device, DeviceChoice, Offer, RefreshKind, Request,
    RowIndex, Scheduler, Standard, Step,
};

/// DDR3-1333 with one rank of eight banks, whose rows take long beside its bursts.
fn device() -> Device {
    Standard::load("ddr3-1333").unwrap().device(DeviceChoice::default()).unwrap()
}

fn controller(scheduler: Scheduler) -> Controller {
    let config = ControllerConfig { scheduler, refresh: RefreshKind::None, ..ControllerConfig::default() };
    let device = device();
    Controller::new(device.geometry, device.timing, config).unwrap()
}

fn read(source: u16, bank: u32, row: u32, column: u32) -> Request {
    Request { id: u64::from(source), source, write: false, bank: BankIndex(bank), row: RowIndex(row), column }
}

/// Offers one request a cycle, and serves them all; completions in the order of their data.
fn serve(scheduler: Scheduler, requests: &[Request]) -> Vec<Completion> {
    let mut controller = controller(scheduler);
    let mut done = Vec::new();
    for (&request, cycle) in requests.iter().zip((0..).map(Cycle)) {
        while let Step::Done(completion) = controller.step(cycle) {
            done.push(completion);
        }
        assert_eq!(controller.offer(cycle, request), Offer::Queued);
    }
    while done.len() < requests.len() {
        if let Step::Done(completion) = controller.step(Cycle(u64::MAX - 1)) {
            done.push(completion);
        }
    }
    done
}

/// When the last request of each source has its data.
fn ends(done: &[Completion], sources: u16) -> Vec<u64> {
    (0..sources)
        .map(|source| done.iter().filter(|one| one.source == source).map(|one| one.done.0).max().unwrap())
        .collect()
}

/// Latency of one read of another row, offered in the middle of a stream of `length` row hits of one bank that keeps
/// `window` of them waiting.
fn latency_beside_a_stream(scheduler: Scheduler, length: u32, window: u32) -> u64 {
    const VICTIM_AT: Cycle = Cycle(500);
    let mut controller = controller(scheduler);
    let (mut offered, mut waiting, mut victim_waits) = (0, 0, false);
    let mut cycle = Cycle::ZERO;
    loop {
        // The controller may be ahead of the requests by nothing.
        loop {
            match controller.step(cycle) {
                Step::Done(completion) if completion.source == 1 => return completion.done - completion.arrival,
                Step::Done(_) => waiting -= 1,
                Step::Working => {}
                Step::Quiet => break,
            }
        }
        if cycle >= VICTIM_AT && !victim_waits {
            victim_waits = true;
            assert_eq!(controller.offer(cycle, read(1, 0, 7, 0)), Offer::Queued);
        } else if waiting < window && offered < length {
            assert_eq!(controller.offer(cycle, read(0, 0, 3, offered % 128)), Offer::Queued);
            (offered, waiting) = (offered + 1, waiting + 1);
        }
        cycle += 1;
    }
}

#[test]
fn a_stream_of_row_hits_starves_others_only_without_a_cap_or_batches() {
    let t = device().timing;
    let own = u64::from(t.rtp.max(t.burst) + t.rp + t.rcd + t.cl + t.burst);
    let hits = |count: u32| u64::from(count * t.ccd_l.max(t.burst));
    const WINDOW: u32 = 20;
    let beside = |scheduler, length| latency_beside_a_stream(scheduler, length, WINDOW);
    // It waits for as long as the stream lasts ...
    let (short, long) = (beside(Scheduler::FrFcfs { cap: None }, 1000), beside(Scheduler::FrFcfs { cap: None }, 2000));
    assert!(short >= hits(800) && long >= short + hits(990), "{short} {long}");
    // ... for what came before it and as many hits more as the cap says ...
    for cap in [4, 16] {
        let capped = beside(Scheduler::FrFcfs { cap: Some(cap) }, 2000);
        assert!((own..=own + hits(WINDOW + cap + 1)).contains(&capped), "cap {cap}: {capped}, alone {own}");
    }
    // ... or for the rest of one batch and the hits of its own.
    for marking_cap in [1, 5] {
        let batched = beside(Scheduler::ParBs { marking_cap }, 2000);
        assert!((own..=own + hits(2 * marking_cap + 1)).contains(&batched), "{marking_cap}: {batched}, alone {own}");
    }
    // Those that wait in order wait for all that came before.
    let first_come = beside(Scheduler::Fcfs, 2000);
    assert!((own..=own + hits(WINDOW + 1)).contains(&first_come), "{first_come}");
}

/// Mutlu and Moscibroda, ISCA 2008, section 4.1.2, the max rule: whose most loaded bank has the fewest requests goes first.
#[test]
fn in_a_batch_the_requester_that_waits_least_goes_first() {
    let requests = [
        read(2, 0, 9, 0), // occupies the bank while the others come
        read(0, 0, 1, 0),
        read(0, 0, 2, 0),
        read(0, 0, 3, 0),
        read(1, 0, 4, 0),
    ];
    let order = |scheduler| serve(scheduler, &requests).iter().map(|one| one.source).collect::<Vec<_>>();
    assert_eq!(order(Scheduler::FrFcfs { cap: None }), [2, 0, 0, 0, 1]);
    assert_eq!(order(Scheduler::ParBs { marking_cap: 5 }), [2, 1, 0, 0, 0]);
}

/// The same paper, figure 3: two requesters with a request to each of two banks, that came crosswise.
#[test]
fn batches_keep_the_requests_of_one_requester_side_by_side() {
    let requests =
        [read(2, 0, 9, 0), read(2, 1, 9, 0), read(0, 0, 1, 0), read(1, 1, 2, 0), read(1, 0, 2, 0), read(0, 1, 1, 0)];
    let first_come = ends(&serve(Scheduler::Fcfs, &requests), 2);
    let batched = ends(&serve(Scheduler::ParBs { marking_cap: 5 }, &requests), 2);
    let row = u64::from(device().timing.rc);
    // Crosswise both wait for two rows after another; side by side one of them waits for one.
    assert!(first_come[0].abs_diff(first_come[1]) < row / 2, "{first_come:?}");
    assert!(batched[0] + row / 2 < first_come[0], "{batched:?} {first_come:?}");
    assert!(batched[1] <= first_come[1] + row / 4, "{batched:?} {first_come:?}");
}

/// No request of a later batch is served while one of an earlier batch waits for the same bank.
#[test]
fn a_batch_is_served_before_what_comes_after_it() {
    let mut requests = vec![read(2, 0, 9, 0)];
    requests.extend((0..3).map(|row| read(0, 0, row, 0)));
    // Ready hits for the row that the batch leaves open, but too late for the batch.
    let mut late: Vec<Request> = (1..9).map(|column| read(1, 0, 0, column)).collect();
    let mut controller = controller(Scheduler::ParBs { marking_cap: 5 });
    let mut order = Vec::new();
    let mut cycle = Cycle::ZERO;
    while order.len() < 12 {
        loop {
            match controller.step(cycle) {
                Step::Done(completion) => order.push(completion.source),
                Step::Working => {}
                Step::Quiet => break,
            }
        }
        if !requests.is_empty() {
            assert_eq!(controller.offer(cycle, requests.remove(0)), Offer::Queued);
        } else if order.len() >= 2 && !late.is_empty() {
            assert_eq!(controller.offer(cycle, late.remove(0)), Offer::Queued);
        }
        cycle += 1;
    }
    assert_eq!(order[..4], [2, 0, 0, 0], "{order:?}");
}
