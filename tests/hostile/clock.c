/* Steps the wall clock of a process, for `LD_PRELOAD`.
 *
 * The file that $ACKBENCH_CLOCK_STEP names holds two steps in seconds, each as 8 bytes in the
 * machine's byte order: that of Kafka's nodes, and that of all other processes. All that map it are
 * stepped at the same instant. The monotonic clock and the length of timed waits stay as they are:
 * a deadline on the wall clock is moved back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* No monotonic clock of a machine that was started since 2001 shows as many seconds. */
#define WALL_CLOCK_FROM_S 1000000000

static const volatile int64_t *step;

/* Whether this is a node of Kafka: its main class is an argument of its command. */
static int is_node(void) {
  char arguments[65536];
  int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, arguments, sizeof arguments);
  close(file);
  return length > 0 && memmem(arguments, (size_t)length, "kafka.Kafka", sizeof "kafka.Kafka");
}

__attribute__((constructor)) static void map_step(void) {
  const char *path = getenv("ACKBENCH_CLOCK_STEP");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, 2 * sizeof *step, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) step = (const volatile int64_t *)mapped + (is_node() ? 0 : 1);
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

/* The instant of a deadline on the machine's clock. A deadline that was computed before the step
 * is on the clock of before: of the two instants, the nearer one that is still to come is meant. */
static struct timespec unstepped(const struct timespec *deadline) {
  struct timespec now, real = *deadline;
  if (real.tv_sec <= WALL_CLOCK_FROM_S) return real;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  int64_t as_computed_now_s = real.tv_sec - step_s() - now.tv_sec;
  int64_t as_computed_before_s = real.tv_sec - now.tv_sec;
  if (as_computed_before_s < 0 ||
      (as_computed_now_s >= 0 && as_computed_now_s < as_computed_before_s))
    real.tv_sec -= step_s();
  return real;
}

/* The C library keeps an older pthread_cond_timedwait for old programs on x86-64. */
static void *next(const char *name) {
  void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return found ? found : dlsym(RTLD_NEXT, name);
}

/* Every wait of the C library that ends at an instant. C11's own (cnd_timedwait, mtx_timedlock)
 * do not call those of POSIX by name: librdkafka waits with both. Each is called with its deadline
 * last, after one or two arguments of its own. */
#define WAIT_FOR_ONE(name, Type, Deadline)                            \
  int name(Type waited, Deadline deadline) {                          \
    static int (*wait)(Type, const struct timespec *);                \
    if (!wait) wait = next(#name);                                    \
    struct timespec real = unstepped(deadline);                       \
    return wait(waited, &real);                                       \
  }
#define WAIT_FOR_TWO(name, First, Second, Deadline)                   \
  int name(First first, Second second, Deadline deadline) {           \
    static int (*wait)(First, Second, const struct timespec *);       \
    if (!wait) wait = next(#name);                                    \
    struct timespec real = unstepped(deadline);                       \
    return wait(first, second, &real);                                \
  }

typedef const struct timespec *restrict deadline_t;

WAIT_FOR_TWO(pthread_cond_timedwait, pthread_cond_t *restrict, pthread_mutex_t *restrict,
             deadline_t)
WAIT_FOR_TWO(cnd_timedwait, cnd_t *restrict, mtx_t *restrict, deadline_t)
WAIT_FOR_ONE(pthread_mutex_timedlock, pthread_mutex_t *restrict, deadline_t)
WAIT_FOR_ONE(mtx_timedlock, mtx_t *restrict, deadline_t)
WAIT_FOR_ONE(sem_timedwait, sem_t *restrict, deadline_t)
/* These are told their clock; on the monotonic one a deadline is left as it is. */
WAIT_FOR_TWO(pthread_mutex_clocklock, pthread_mutex_t *restrict, clockid_t, deadline_t)
WAIT_FOR_TWO(sem_clockwait, sem_t *restrict, clockid_t, deadline_t)

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t clock, deadline_t deadline) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
  if (!wait) wait = next("pthread_cond_clockwait");
  struct timespec real = unstepped(deadline);
  return wait(condition, mutex, clock, &real);
}
