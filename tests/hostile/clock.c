/* Steps the wall clock of a process, for `LD_PRELOAD`.
 *
 * The file that $ACKBENCH_CLOCK_STEP names holds the step in seconds, as 8 bytes in the machine's
 * byte order; all processes that map it are stepped at the same instant. The monotonic clock and
 * the length of timed waits stay as they are: a deadline on the wall clock is moved back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* No monotonic clock of a machine that was started since 2001 shows as many seconds. */
#define WALL_CLOCK_FROM_S 1000000000

static const volatile int64_t *step;

__attribute__((constructor)) static void map_step(void) {
  const char *path = getenv("ACKBENCH_CLOCK_STEP");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) step = mapped;
  close(file);
}

static int64_t step_s(void) { return step ? *step : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += step_s();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec exact;
  int failed = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
  return clock_gettime(CLOCK_REALTIME, now) ? 0 : base;
}

static struct timespec unstepped(const struct timespec *deadline) {
  struct timespec real = *deadline;
  if (real.tv_sec > WALL_CLOCK_FROM_S) real.tv_sec -= step_s();
  return real;
}

/* The C library keeps an older pthread_cond_timedwait for old programs on x86-64. */
static void *next(const char *name) {
  void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!wait) wait = next("pthread_cond_timedwait");
  struct timespec real = unstepped(deadline);
  return wait(condition, mutex, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
                            const struct timespec *restrict deadline) {
  static int (*wait)(pthread_mutex_t *, const struct timespec *);
  if (!wait) wait = next("pthread_mutex_timedlock");
  struct timespec real = unstepped(deadline);
  return wait(mutex, &real);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
  static int (*wait)(sem_t *, const struct timespec *);
  if (!wait) wait = next("sem_timedwait");
  struct timespec real = unstepped(deadline);
  return wait(semaphore, &real);
}
