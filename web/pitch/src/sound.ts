// Sound of files and of the microphone, at the model's rate and in one channel.

import { RATE } from "./notes.js";

/** The longest sound of a file, in seconds. */
const LONGEST = 60;

/** Decodes a file that the browser can play: resampled, mixed, and cut after a minute. */
export async function decode(bytes: ArrayBuffer): Promise<Float32Array> {
  const decoded = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes);
  const sound = new Float32Array(Math.min(decoded.length, LONGEST * RATE));
  for (let channel = 0; channel < decoded.numberOfChannels; channel += 1) {
    const samples = decoded.getChannelData(channel);
    for (let index = 0; index < sound.length; index += 1) sound[index]! += samples[index]! / decoded.numberOfChannels;
  }
  return sound;
}

/** A running microphone. */
export interface Microphone {
  stop(): Promise<void>;
}

/** Records until it is stopped; `onChunk` gets what comes. */
export async function record(onChunk: (samples: Float32Array) => void): Promise<Microphone> {
  const voice = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: voice });
  const context = new AudioContext({ sampleRate: RATE });
  const stop = async () => {
    for (const track of stream.getTracks()) track.stop();
    await context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL("capture.js", import.meta.url));
    const capture = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
    capture.port.onmessage = ({ data }: MessageEvent<Float32Array>) => onChunk(data);
    context.createMediaStreamSource(stream).connect(capture);
    await context.resume();
  } catch (error) {
    await stop();
    throw error;
  }
  return { stop };
}
