//! A few threads that run short jobs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads for jobs. They are started with the first job, and end when the pool is dropped and their jobs are done.
#[derive(Debug)]
pub(super) struct ThreadPool {
    name: &'static str,
    threads: usize,
    jobs: Mutex<Option<Sender<Job>>>,
}

impl ThreadPool {
    pub(super) fn new(name: &'static str, most: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { name, threads: cores.clamp(1, most), jobs: Mutex::new(None) }
    }

    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs a job on one of the threads. A panic of the job ends neither thread nor pool. Returns the job if the system refuses to
    /// start any thread.
    pub(super) fn execute(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = jobs.get_or_insert_with(|| self.start());
        sender.send(Box::new(job)).map_err(|refused| refused.0)
    }

    fn start(&self) -> Sender<Job> {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for index in 0..self.threads {
            let receiver = Arc::clone(&receiver);
            let thread = std::thread::Builder::new().name(format!("pteron {} {index}", self.name));
            // Fewer threads than wanted do the same work.
            drop(thread.spawn(move || work(&receiver)));
        }
        sender
    }

    /// Runs all jobs, the first one on this thread, and returns their results in order. A job that panicked has none.
    pub(super) fn run_all<T: Send + 'static>(&self, jobs: Vec<impl FnOnce() -> T + Send + 'static>) -> Vec<Option<T>> {
        let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
        let (sender, receiver) = channel();
        let mut jobs = (0..).zip(jobs);
        let own = jobs.next();
        for (index, job) in jobs {
            let sender = sender.clone();
            if let Err(job) = self.execute(move || drop(sender.send((index, job())))) {
                job();
            }
        }
        drop(sender);
        if let Some((index, job)) = own {
            results[index] = Some(job());
        }
        for (index, result) in receiver {
            results[index] = Some(result);
        }
        results
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // The panic has been reported. Jobs share nothing that it could leave half changed.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let pool = ThreadPool::new("test", 3);
        for count in [0, 1, 2, 20] {
            let jobs: Vec<_> = (0..count).map(|index| move || index * index).collect();
            let expected: Vec<_> = (0..count).map(|index| Some(index * index)).collect();
            assert_eq!(pool.run_all(jobs), expected);
        }
        assert!((1..=3).contains(&pool.threads()));
    }

    #[test]
    fn a_job_that_panics_disturbs_no_other() {
        let pool = ThreadPool::new("test", 1);
        let jobs: Vec<_> = (0..4).map(|index| move || if index == 2 { panic!("a test") } else { index }).collect();
        assert_eq!(pool.run_all(jobs), [Some(0), Some(1), None, Some(3)]);
    }
}
