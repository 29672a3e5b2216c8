// A library that replaces functions of the C library in the processes of a container, so that a test can limit the size
// of a volume, make the volume read-only, let it fail to flush files, or change the clock. The environment variable
// MACHINE_VOLUME is the directory of the volume. MACHINE_FAULTS is a file with the faults: see struct faults.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// faults is the content of the file, which all processes and the test share.
struct faults {
	int64_t size;     // of the volume in bytes; 0 means that it is not limited
	int64_t used;     // bytes of the files on the volume
	int64_t readOnly; // 1 if the volume is read-only
	int64_t flush;    // 1 if fsync fails
	int64_t clock;    // seconds by which the clock is ahead
};

static struct faults *faults;
static const char *volume;

#define REAL(result, name, ...) \
	static result (*real)(__VA_ARGS__); \
	if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
	const char *file = getenv("MACHINE_FAULTS");
	volume = getenv("MACHINE_VOLUME");
	int fd = file && volume ? open(file, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *shared = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (shared != MAP_FAILED) faults = shared;
}

static int below(const char *path) {
	size_t n = strlen(volume);
	return strncmp(path, volume, n) == 0 && (path[n] == '/' || path[n] == 0);
}

// onVolume returns 1 if a path is on the volume. Relative paths are those of PostgreSQL in its data directory.
static int onVolume(int dir, const char *path) {
	char here[PATH_MAX];
	if (!faults || !path) return 0;
	if (path[0] == '/') return below(path);
	if (dir == AT_FDCWD) return getcwd(here, sizeof here) && below(here);
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	ssize_t n = readlink(link, here, sizeof here - 1);
	if (n < 0) return 0;
	here[n] = 0;
	return below(here);
}

// take returns 0 after it has counted the bytes by which a write makes a file grow, and otherwise sets errno.
static int take(int fd, off_t offset, int64_t length) {
	struct stat st;
	if (!faults || (!faults->size && !faults->readOnly)) return 0;
	int saved = errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) goto accepted;
	char link[64], path[PATH_MAX];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0) goto accepted;
	path[n] = 0;
	if (!below(path)) goto accepted;
	if (faults->readOnly) {
		errno = EROFS;
		return -1;
	}
	if (offset < 0) offset = fcntl(fd, F_GETFL) & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR);
	int64_t more = offset + length - st.st_size;
	if (more <= 0) goto accepted;
	if (__atomic_load_n(&faults->used, __ATOMIC_SEQ_CST) + more > faults->size) {
		errno = ENOSPC;
		return -1;
	}
	__atomic_add_fetch(&faults->used, more, __ATOMIC_SEQ_CST);
accepted:
	errno = saved;
	return 0;
}

static void release(int64_t bytes) {
	if (faults && faults->size) __atomic_sub_fetch(&faults->used, bytes, __ATOMIC_SEQ_CST);
}

static int64_t total(const struct iovec *v, int n) {
	int64_t sum = 0;
	for (int i = 0; i < n; i++) sum += v[i].iov_len;
	return sum;
}

ssize_t write(int fd, const void *from, size_t n) {
	REAL(ssize_t, "write", int, const void *, size_t);
	return take(fd, -1, n) ? -1 : real(fd, from, n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t offset) {
	REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
	return take(fd, offset, n) ? -1 : real(fd, from, n, offset);
}

ssize_t writev(int fd, const struct iovec *v, int n) {
	REAL(ssize_t, "writev", int, const struct iovec *, int);
	return take(fd, -1, total(v, n)) ? -1 : real(fd, v, n);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset) {
	REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t);
	return take(fd, offset, total(v, n)) ? -1 : real(fd, v, n, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t n) {
	REAL(int, "fallocate", int, int, off_t, off_t);
	return take(fd, offset, n) ? -1 : real(fd, mode, offset, n);
}

int posix_fallocate(int fd, off_t offset, off_t n) {
	REAL(int, "posix_fallocate", int, off_t, off_t);
	return take(fd, offset, n) ? errno : real(fd, offset, n);
}

int ftruncate(int fd, off_t n) {
	REAL(int, "ftruncate", int, off_t);
	struct stat st;
	if (take(fd, n, 0)) return -1;
	int64_t before = fstat(fd, &st) ? 0 : st.st_size;
	int result = real(fd, n);
	if (!result && before > n) release(before - n);
	return result;
}

ssize_t copy_file_range(int in, off_t *inAt, int out, off_t *outAt, size_t n, unsigned flags) {
	errno = ENOSYS; // so that cp calls write
	return -1;
}

static int64_t bytesAt(int dir, const char *path) {
	struct stat st;
	return onVolume(dir, path) && !fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) ? st.st_size : 0;
}

// isReadOnly returns 1 and sets errno if a path is on a read-only volume.
static int isReadOnly(int dir, const char *path) {
	if (!faults || !faults->readOnly || !onVolume(dir, path)) return 0;
	errno = EROFS;
	return 1;
}

int unlinkat(int dir, const char *path, int flags) {
	REAL(int, "unlinkat", int, const char *, int);
	if (isReadOnly(dir, path)) return -1;
	int64_t bytes = bytesAt(dir, path);
	int result = real(dir, path, flags);
	if (!result) release(bytes);
	return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int renameat2(int fromDir, const char *from, int toDir, const char *to, unsigned flags) {
	REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
	if (isReadOnly(toDir, to)) return -1;
	int64_t bytes = bytesAt(toDir, to);
	int result = real(fromDir, from, toDir, to, flags);
	if (!result) release(bytes);
	return result;
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int mkdir(const char *path, mode_t mode) {
	REAL(int, "mkdir", const char *, mode_t);
	return isReadOnly(AT_FDCWD, path) ? -1 : real(path, mode);
}

int openat(int dir, const char *path, int flags, ...) {
	REAL(int, "openat", int, const char *, int, ...);
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	if (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC) && isReadOnly(dir, path)) return -1;
	int64_t bytes = flags & O_TRUNC ? bytesAt(dir, path) : 0;
	int fd = real(dir, path, flags, mode);
	if (fd >= 0) release(bytes);
	return fd;
}

int open(const char *path, int flags, ...) {
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	return openat(AT_FDCWD, path, flags, mode);
}

static int failsToFlush(void) {
	if (!faults || !faults->flush) return 0;
	errno = EIO;
	return 1;
}

int fsync(int fd) {
	REAL(int, "fsync", int);
	return failsToFlush() ? -1 : real(fd);
}

int fdatasync(int fd) {
	REAL(int, "fdatasync", int);
	return failsToFlush() ? -1 : real(fd);
}

static int64_t counted;

static int count(const char *path, const struct stat *st, int type) {
	if (type == FTW_F && S_ISREG(st->st_mode)) counted += st->st_size;
	return 0;
}

int statvfs(const char *path, struct statvfs *at) {
	REAL(int, "statvfs", const char *, struct statvfs *);
	int result = real(path, at);
	if (result || !faults || !faults->size || !below(path)) return result;
	counted = 0;
	ftw(volume, count, 16);
	faults->used = counted;
	at->f_bsize = at->f_frsize = 1024;
	at->f_blocks = faults->size / 1024;
	at->f_bfree = at->f_bavail = counted < faults->size ? (faults->size - counted) / 1024 : 0;
	return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
	REAL(int, "gettimeofday", struct timeval *, void *);
	int result = real(now, zone);
	if (!result && faults) now->tv_sec += faults->clock;
	return result;
}

time_t time(time_t *now) {
	REAL(time_t, "time", time_t *);
	time_t is = real(NULL) + (faults ? faults->clock : 0);
	if (now) *now = is;
	return is;
}

int clock_gettime(clockid_t which, struct timespec *now) {
	REAL(int, "clock_gettime", clockid_t, struct timespec *);
	int result = real(which, now);
	if (!result && faults && which == CLOCK_REALTIME) now->tv_sec += faults->clock;
	return result;
}

// Programs that are built with large files use these names.
#define SAME(name, as) extern __typeof__(as) name __attribute__((alias(#as)))
SAME(pwrite64, pwrite);
SAME(pwritev64, pwritev);
SAME(fallocate64, fallocate);
SAME(posix_fallocate64, posix_fallocate);
SAME(ftruncate64, ftruncate);
SAME(open64, open);
SAME(openat64, openat);

int statvfs64(const char *path, struct statvfs64 *at) { return statvfs(path, (struct statvfs *)at); }
