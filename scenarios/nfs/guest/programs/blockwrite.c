/* Writes files block by block from start to end, repeatedly: the same as the sequential block writes of
 * bonnie++ ("intelligently"), but endless and to existing files. One process per file.
 *
 *     blockwrite BLOCK FILE-BYTES PATH... */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Writes from the file's position to its end. Blocks differ only in their number, as with bonnie++. */
static void write_blocks(const char *path, int file, char *buffer, size_t block, long blocks)
{
    for (long number = 0; number < blocks; number++) {
        memcpy(buffer, &number, sizeof number);
        if (write(file, buffer, block) != (ssize_t)block)
            err(1, "%s: cannot write block %ld", path, number);
    }
}

static void write_without_end(const char *path, char *buffer, size_t block, long blocks)
{
    int file = open(path, O_WRONLY);

    if (file < 0)
        err(1, "%s", path);
    for (;;) {
        write_blocks(path, file, buffer, block, blocks);
        if (lseek(file, 0, SEEK_SET) != 0)
            err(1, "%s: cannot seek to the start", path);
    }
}

/* Creates a file of full size on the server. */
static void make(const char *path, char *buffer, size_t block, long blocks)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (file < 0)
        err(1, "%s", path);
    write_blocks(path, file, buffer, block, blocks);
    if (fsync(file) || close(file))
        err(1, "%s: cannot create the file", path);
}

int main(int count, char **words)
{
    if (count < 4)
        errx(2, "usage: blockwrite BLOCK FILE-BYTES PATH...");
    size_t block = strtoul(words[1], NULL, 10);
    long blocks = block ? strtol(words[2], NULL, 10) / (long)block : 0;
    char *buffer = calloc(1, block + 1);
    int status;

    if (block < sizeof(long) || blocks < 1 || !buffer)
        errx(2, "BLOCK must be at least %zu bytes, and FILE-BYTES at least BLOCK", sizeof(long));
    for (int file = 3; file < count; file++)
        make(words[file], buffer, block, blocks);
    puts("blockwrite: all files are there");
    fflush(stdout);
    for (int file = 3; file < count; file++) {
        pid_t child = fork();

        if (child < 0)
            err(1, "cannot start a process");
        if (child == 0)
            write_without_end(words[file], buffer, block, blocks);
    }
    /* A child only exits after a failure, which it has reported. */
    wait(&status);
    return 1;
}
