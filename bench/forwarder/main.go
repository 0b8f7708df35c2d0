// Command forwarder copies bytes between each client connection and an upstream
// connection of its own. It is the least that a proxy on Go's net package can
// do, and so the yardstick that bench/proxy.sh holds the gateway against.
//
//	forwarder LISTEN UPSTREAM
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: forwarder LISTEN UPSTREAM")
		os.Exit(2)
	}
	ln, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "forwarder:", err)
		os.Exit(1)
	}
	for {
		client, err := ln.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "forwarder:", err)
			os.Exit(1)
		}
		go forward(client, os.Args[2])
	}
}

// forward connects client to upstream until one of them ends.
func forward(client net.Conn, upstream string) {
	defer client.Close()
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		fmt.Fprintln(os.Stderr, "forwarder:", err)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { pump(server, client) })
	pump(client, server)
	wg.Wait()
}

// pump copies with Read and Write: io.Copy would splice in the kernel, which a
// gateway that looks at messages cannot. It closes both ends when it is done.
func pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
