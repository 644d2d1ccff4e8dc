// SPDX-License-Identifier: GPL-2.0
/*
 * A server of files and its client, over TCP as any program has it: it knows nothing of RDMA. rsockets.sh runs it with librspreload.
 *
 *   tcp_files serve ADDRESS PORT DIRECTORY	one client after the other
 *   tcp_files forks ADDRESS PORT DIRECTORY	each client has a process
 *   tcp_files fetch ADDRESS PORT FILE		to the standard output
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void send_all(int to, const char *bytes, size_t length)
{
	while (length) {
		ssize_t sent = write(to, bytes, length);

		if (sent <= 0)
			die("write");
		bytes += sent;
		length -= sent;
	}
}

/* The client sends a name and a line feed, and gets the file until the end. */
static void serve(int client)
{
	static char buffer[1 << 16];
	char name[64] = { 0 };
	int file;

	for (size_t i = 0; i < sizeof(name) - 1 && recv(client, name + i, 1, 0) == 1 && name[i] != '\n'; i++)
		;
	name[strcspn(name, "\n")] = 0;
	file = open(name, O_RDONLY);
	for (ssize_t got; file >= 0 && (got = read(file, buffer, sizeof(buffer))) > 0; )
		send_all(client, buffer, got);
	close(file);
	shutdown(client, SHUT_WR);
	/* The client has it all when it closes. */
	while (recv(client, buffer, sizeof(buffer), 0) > 0)
		;
	close(client);
}

static void server(struct sockaddr_in *here, bool forks)
{
	int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	signal(SIGCHLD, SIG_IGN);
	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listening, (struct sockaddr *)here, sizeof(*here)) || listen(listening, 8))
		die("listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		int client = accept(listening, NULL, NULL);

		if (client < 0)
			die("accept");
		if (!forks || !fork()) {
			serve(client);
			if (forks)
				_exit(0);
		} else {
			close(client);
		}
	}
}

static void fetch(struct sockaddr_in *there, const char *name)
{
	static char buffer[1 << 16];
	int to = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(to, (struct sockaddr *)there, sizeof(*there)))
		die("connect");
	send_all(to, name, strlen(name));
	send_all(to, "\n", 1);
	for (ssize_t got; (got = recv(to, buffer, sizeof(buffer), 0)) > 0; )
		if (fwrite(buffer, 1, got, stdout) != (size_t)got)
			die("write");
	close(to);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	if (argc < 5 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		return 2;
	address.sin_port = htons(atoi(argv[3]));
	if (!strcmp(argv[1], "fetch")) {
		fetch(&address, argv[4]);
		return 0;
	}
	if (chdir(argv[4]))
		die("chdir");
	server(&address, !strcmp(argv[1], "forks"));
}
