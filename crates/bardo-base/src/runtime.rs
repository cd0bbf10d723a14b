//! Asynchronous runtimes of all programs and tests, with stacks that an action's nested futures fit on.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Stack of each worker thread, in bytes: four times tokio's, because unoptimised code keeps every level of a nested
/// future's polling in a large frame. The system reserves it and fills in only what is used.
const STACK_BYTES: usize = 8 << 20;

/// Starts a runtime with this number of worker threads, or with one for each processor.
///
/// # Errors
/// If the system starts no thread.
pub fn multi_threaded(workers: Option<usize>) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    builder.thread_stack_size(STACK_BYTES).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses more stack than tokio gives to a worker, which is 2 MiB.
    #[test]
    fn a_task_may_use_more_stack_than_tokio_gives() {
        fn fill(levels: usize) -> usize {
            let frame = std::hint::black_box([levels as u8; 64 << 10]);
            let below = if levels == 0 { 0 } else { fill(levels - 1) };
            below + usize::from(std::hint::black_box(frame)[levels])
        }
        let runtime = multi_threaded(Some(1)).unwrap();
        let deep = runtime.block_on(async { tokio::spawn(async { fill(40) }).await });
        assert_eq!(deep.unwrap(), (0..=40).sum::<usize>());
    }
}
