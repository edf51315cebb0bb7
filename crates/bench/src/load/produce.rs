//! Producing: one thread, any number of connections, as fast as answers allow or at a fixed rate.
//!
//! At a fixed rate, request number N is due at the start plus N intervals, whether the ones before were answered or
//! not, and its latency counts from then: a broker that stalls pays for every request that would have been sent
//! meanwhile.

use super::histogram::Histogram;
use super::link::Link;
use super::procstat::Mark;
use super::settings::Settings;
use super::setup;
use super::template::{BatchShape, Template};
use crate::connection::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// How long answers are waited for after the window.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same at a rate that the broker does not keep up with.
const OVERLOADED: Duration = Duration::from_secs(2);

/// When requests are sent.
struct Pace {
    /// The time between two requests; none: as soon as one of those before is answered.
    interval: Option<Duration>,
    in_flight: usize,
}

/// The time that counts.
struct Window {
    begin: Instant,
    end: Instant,
}

struct Tally {
    times: Histogram,
    /// Answers that arrived within the window.
    answered: u64,
    /// Answers later than the window to requests that were due in it.
    late: u64,
}

impl Tally {
    fn answered(&mut self, due: Instant, now: Instant, paced: bool, window: &Window) {
        let in_time = now >= window.begin && now < window.end;
        let was_due = due >= window.begin && due < window.end;
        self.answered += u64::from(in_time);
        self.late += u64::from(was_due && !in_time);
        if if paced { was_due } else { in_time } {
            self.times.record(now - due);
        }
    }
}

impl Tally {
    /// Counts what is not answered, and what was due and never sent, as having taken until now.
    fn give_up(&mut self, links: &[Link], pace: &Pace, (started, number): (Instant, u64), window: &Window) {
        let now = Instant::now();
        let unsent =
            (number..).map_while(|number| pace.due(started, number)).take_while(|due| *due < window.end);
        let unanswered = links.iter().flat_map(Link::unanswered).chain(unsent);
        for due in unanswered.filter(|due| *due >= window.begin && *due < window.end) {
            self.late += 1;
            self.times.record(now - due);
        }
    }
}

/// Runs the cell and prints its figures.
pub(crate) fn run(settings: &Settings) -> Result<(), String> {
    let record = settings.number("record", 1024)?;
    let shape = BatchShape::fill(record, settings.number("batch", 16 << 10)?);
    let mut links = open(settings, &shape)?;
    let rate: f64 = settings.number("rate", 0.0)?;
    let interval = (rate > 0.0).then(|| Duration::from_secs_f64(1.0 / rate));
    let pace = Pace { interval, in_flight: settings.number("inflight", 5)? };
    let begin = Instant::now() + settings.millis("warm", 300)?;
    let window = Window { begin, end: begin + settings.millis("millis", 1000)? };
    let (batches, records) = setup::size_of(settings, &shape)?;
    // A fast broker must not fill the disk: it is measured over a number of bytes instead of a time.
    let most = settings.number("bytes", u64::MAX)? / batches as u64;
    let mark_at = settings.number("pid", 0)?;
    let (tally, mark, seconds) = drive(&mut links, &pace, window, most, mark_at)?;
    let requests = tally.answered;
    println!(
        "seconds={seconds:.6} requests={requests} records={} bytes={} late={} samples={} {} {}",
        requests * records as u64,
        requests * batches as u64,
        tally.late,
        tally.times.count(),
        tally.times.figures(),
        mark
    );
    Ok(())
}

/// Connects, each link with a producer id of its own and the partitions that only it writes to.
fn open(settings: &Settings, shape: &BatchShape) -> Result<Vec<Link>, String> {
    let (broker, topic) = (settings.text("broker")?, settings.text_or("topic", "load"));
    let count: usize = settings.number("connections", 1)?;
    let each: usize = settings.number("each", 1)?;
    let acks = settings.number("acks", -1)?;
    let targets = setup::targets(settings)?;
    let mut links = Vec::new();
    for number in 0..count.max(1) {
        let mut mine: Vec<i32> = targets.iter().copied().skip(number).step_by(count.max(1)).collect();
        if mine.is_empty() {
            mine = targets.get(number % targets.len().max(1)).copied().into_iter().collect();
        }
        if mine.len() < each.max(1) {
            return Err(format!("{} partitions for a producer that sends to {each} at a time", mine.len()));
        }
        let mut connection = Connection::open(broker)?;
        let mut template = Template::new(topic, each.max(1), shape, acks);
        let (id, epoch) = setup::producer(&mut connection)?;
        template.set_producer(id, epoch);
        let link = Link::new(connection.into_stream(), template, &mine, shape.records);
        links.push(link.map_err(|e| format!("{broker}: {e}"))?);
    }
    Ok(links)
}

/// Sends and receives until the window is over and everything due in it is answered.
fn drive(
    links: &mut [Link],
    pace: &Pace,
    mut window: Window,
    most: u64,
    process: u32,
) -> Result<(Tally, String, f64), String> {
    let mut tally = Tally { times: Histogram::new(), answered: 0, late: 0 };
    let started = Instant::now();
    let (mut mark, mut figures) = (None, None);
    let mut number: u64 = 0;
    loop {
        let now = Instant::now();
        if mark.is_none() && now >= window.begin {
            mark = Some(Mark::now(process));
        }
        if tally.answered >= most && now < window.end {
            window.end = now;
        }
        if figures.is_none() && now >= window.end {
            figures = mark.as_ref().map(Mark::figures);
        }
        let wait = send(links, pace, started, &window, &mut number)?;
        let idle = links.iter().all(|link| link.in_flight() == 0);
        let all_sent = pace.due(started, number).is_none_or(|due| due >= window.end);
        if now >= window.end && idle && all_sent {
            break;
        }
        if pace.interval.is_some() && now >= window.end + OVERLOADED {
            tally.give_up(links, pace, (started, number), &window);
            break;
        }
        if now >= window.end + PATIENCE {
            return Err("requests stay unanswered".to_owned());
        }
        receive(links, wait, |due| tally.answered(due, Instant::now(), pace.interval.is_some(), &window))?;
    }
    let seconds = (window.end - window.begin).as_secs_f64();
    Ok((tally, figures.unwrap_or_default(), seconds))
}

impl Pace {
    /// When request `number` is to be sent; none if that depends on answers.
    fn due(&self, started: Instant, number: u64) -> Option<Instant> {
        self.interval.map(|interval| started + Duration::from_nanos(interval.as_nanos() as u64 * number))
    }
}

/// Sends the requests that are due; returns the time until the next one is due.
fn send(
    links: &mut [Link],
    pace: &Pace,
    started: Instant,
    window: &Window,
    number: &mut u64,
) -> Result<Duration, String> {
    let now = Instant::now();
    let mut wait = Duration::from_millis(20);
    match pace.interval {
        None => {
            for link in links.iter_mut().filter(|_| now < window.end) {
                while link.in_flight() < pace.in_flight && link.has_room() {
                    link.send(Instant::now());
                }
            }
        }
        Some(_) => {
            let count = links.len() as u64;
            while let Some(due) = pace.due(started, *number) {
                if due >= window.end {
                    break;
                }
                if due > now {
                    wait = wait.min(due - now);
                    break;
                }
                // Round and round; when the next one cannot take it, all that come later wait too, and their clocks
                // run.
                let link = &mut links[(*number % count) as usize];
                if link.in_flight() >= pace.in_flight || !link.has_room() {
                    break;
                }
                link.send(due);
                *number += 1;
            }
        }
    }
    links.iter_mut().try_for_each(Link::flush)?;
    Ok(wait)
}

/// Waits for the sockets, at most that long, and takes what they bring.
fn receive(links: &mut [Link], wait: Duration, mut answered: impl FnMut(Instant)) -> Result<(), String> {
    let ready: Vec<bool> = {
        let interest = |link: &Link| {
            if link.is_writing() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let mut waits: Vec<PollFd<'_>> =
            links.iter().map(|link| PollFd::new(link.stream(), interest(link))).collect();
        let limit = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        match poll(&mut waits, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(format!("poll: {e}")),
        }
        waits
            .iter()
            .map(|wait| wait.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
            .collect()
    };
    for (link, ready) in links.iter_mut().zip(ready) {
        if ready {
            link.receive(&mut answered)?;
        }
    }
    Ok(())
}
