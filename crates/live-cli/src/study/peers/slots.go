// The Go side of cavy-live's study: a goroutine for each request, and a semaphore of as many slots
// as the other peers have threads. Service is emulated by waiting.
//
// stdin: requests of 12 bytes, little endian: number (4), service in nanoseconds (8).
// stdout: answers of 12 bytes: number (4), when it ended on CLOCK_MONOTONIC in nanoseconds (8).
package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

func monotonic() uint64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Sec)*1e9 + uint64(ts.Nsec)
}

func main() {
	slots, err := strconv.Atoi(os.Args[1])
	if err != nil {
		os.Exit(2)
	}
	semaphore := make(chan struct{}, slots)
	var out sync.Mutex
	var running sync.WaitGroup
	in := bufio.NewReader(os.Stdin)
	request := make([]byte, 12)
	for {
		if _, err := io.ReadFull(in, request); err != nil {
			break
		}
		number := binary.LittleEndian.Uint32(request)
		service := time.Duration(binary.LittleEndian.Uint64(request[4:]))
		running.Add(1)
		go func() {
			defer running.Done()
			semaphore <- struct{}{}
			time.Sleep(service)
			ended := monotonic()
			<-semaphore
			answer := make([]byte, 12)
			binary.LittleEndian.PutUint32(answer, number)
			binary.LittleEndian.PutUint64(answer[4:], ended)
			out.Lock()
			os.Stdout.Write(answer)
			out.Unlock()
		}()
	}
	running.Wait()
}
